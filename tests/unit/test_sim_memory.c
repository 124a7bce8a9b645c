/* Device memory of the simulator, and that the reader of sysfs finds it in the simulator's tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/file.h"
#include "driver-iface/sim/sim_memory.h"
#include "driver-iface/sysfs/sysfs.h"

#define GIB (1ull << 30)

static char root[64];
static struct sysfs tree;
static struct sim_memory *m;

static void begin(const char *type)
{
    struct kymo_err err = {0};
    const struct sim_memory_config config = {
        .instance = kymo_instance_find(type), .arch = kymo_arch_find(type), .driver_version = "2.31.0", .sysfs = root};

    if (sim_memory_new(&config, &m, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(sysfs_init(&tree, root, NULL), 0);
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/kymo-test-memory.XXXXXX");
    assert_non_null(mkdtemp(root));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    m = sim_memory_free(m);
    return kymo_file_remove_tree(root, NULL);
}

static uint64_t shown(enum sysfs_id id, unsigned device, unsigned core, unsigned member, unsigned value)
{
    struct kymo_err err = {0};
    uint64_t v = 0;

    if (sysfs_number(&tree, id, device, core, member, value, &v, &err) < 0)
        fail_msg("%s", err.text);
    return v;
}

static void test_take(void **state)
{
    struct kymo_err err = {0};
    struct sysfs_host host;
    struct sysfs_memory memory;

    (void)state;
    begin("trn2.3xlarge");
    assert_int_equal(sim_memory_take(m, 2, 2, SYSFS_KIND_TENSORS, 5 * GIB, &err), 0);
    assert_int_equal(sim_memory_take(m, 3, 1, SYSFS_KIND_NOTIFICATIONS, 7 * GIB, &err), 0);
    assert_int_equal(sim_memory_take(m, 2, 2, SYSFS_KIND_CONSTANTS, 1, &err), -ENOMEM);
    assert_non_null(strstr(err.text, "core 3"));
    assert_int_equal(shown(SYSFS_CORE_MEMORY, 0, 2, 0, SYSFS_PRESENT), 5 * GIB); /* nothing of what was refused */
    assert_int_equal(sysfs_read_host(&tree, &host, &err), 0);
    assert_string_equal(host.driver_version, "2.31.0");
    assert_string_equal(host.instance, "trn2.3xlarge");
    assert_int_equal(host.n_devices, 1);
    assert_int_equal(host.devices[0].cores, 8);
    assert_ptr_equal(host.devices[0].arch, kymo_arch_find("Trn2"));
    assert_int_equal(sysfs_read_memory(&tree, &host.devices[0], 2, 2, &memory, &err), 0);
    assert_int_equal(memory.used, 17 * GIB);
    assert_int_equal(memory.capacity, 24 * GIB);
    sim_memory_give(m, 3, 1, SYSFS_KIND_NOTIFICATIONS, 6 * GIB);
    sim_memory_give(m, 3, 1, SYSFS_KIND_TENSORS, 50 * GIB); /* more than there is */
    assert_int_equal(shown(SYSFS_CORE_MEMORY, 0, 3, 0, SYSFS_PRESENT), GIB);
    assert_int_equal(shown(SYSFS_CORE_MEMORY, 0, 3, 0, SYSFS_PEAK), 12 * GIB);
    assert_int_equal(shown(SYSFS_CORE_MEMORY_BY_KIND, 0, 3, SYSFS_KIND_TENSORS, SYSFS_PRESENT), 0);
    assert_int_equal(shown(SYSFS_CORE_MEMORY_BY_KIND, 0, 3, SYSFS_KIND_TENSORS, SYSFS_PEAK), 5 * GIB);
    assert_int_equal(shown(SYSFS_CORE_MEMORY_BY_KIND, 0, 3, SYSFS_KIND_NOTIFICATIONS, SYSFS_PRESENT), GIB);
    assert_int_equal(shown(SYSFS_CORE_MEMORY, 0, 7, 0, SYSFS_PRESENT), 0); /* never used */
}

static void test_detach(void **state)
{
    const struct sim_memory_deeds deeds = {.loads = 2, .executions = 9, .failures = 1, .busy_us = 77};

    (void)state;
    begin("trn1.32xlarge");
    assert_int_equal(sim_memory_take(m, 31, 1, SYSFS_KIND_TENSORS, GIB, NULL), 0);
    assert_int_equal(shown(SYSFS_STATUS, 15, 1, 0, SYSFS_TOTAL), 0);
    sim_memory_detach(m, 31, 1, &deeds);
    assert_int_equal(shown(SYSFS_CORE_MEMORY, 15, 1, 0, SYSFS_PRESENT), 0);
    assert_int_equal(shown(SYSFS_CORE_MEMORY, 15, 1, 0, SYSFS_TOTAL), GIB);
    assert_int_equal(shown(SYSFS_STATUS, 15, 1, 0, SYSFS_TOTAL), 8);
    assert_int_equal(shown(SYSFS_STATUS, 15, 1, 1, SYSFS_PRESENT), 1);
    assert_int_equal(shown(SYSFS_ACTIVITY, 15, 1, 0, SYSFS_TOTAL), 2);
    assert_int_equal(shown(SYSFS_ACTIVITY, 15, 1, 1, SYSFS_TOTAL), 9);
    assert_int_equal(shown(SYSFS_ACTIVITY, 15, 1, 3, SYSFS_TOTAL), 77);
}

/* A tree of before is begun anew, whatever a killed process left in it. */
static void test_again(void **state)
{
    char path[SYSFS_PATH_MAX], left[SYSFS_PATH_MAX + 8], text[SYSFS_TEXT_MAX];
    struct stat st;

    (void)state;
    begin("inf2.xlarge");
    assert_int_equal(sim_memory_take(m, 0, 1, SYSFS_KIND_TENSORS, GIB, NULL), 0);
    assert_int_equal(sysfs_path(&tree, SYSFS_CORE_MEMORY, 0, 0, 0, SYSFS_PRESENT, path, NULL), 0);
    (void)snprintf(left, sizeof left, "%s.next", path);
    assert_int_equal(kymo_file_write_atomic(left, "x", 1, NULL), 0);
    m = sim_memory_free(m);
    begin("inf2.xlarge");
    assert_int_equal(shown(SYSFS_CORE_MEMORY, 0, 0, 0, SYSFS_PRESENT), 0);
    assert_int_equal(sysfs_text(&tree, SYSFS_ARCH_TYPE, 0, 0, 0, 0, text, NULL), 0);
    assert_string_equal(text, "NDv3"); /* as the driver says it of an Inf2 */
    assert_int_equal(sysfs_path(&tree, SYSFS_CORE_COUNT, 0, 0, 0, 0, path, NULL), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0400);
    assert_int_equal(st.st_size, 1); /* no end of line */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_take), TEST(test_detach), TEST(test_again)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
