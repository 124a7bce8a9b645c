/* A tree as the driver keeps it, whole, in parts, and wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "driver-iface/sysfs/sysfs.h"

static char root[64];
static struct sysfs s;

static int setup(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/kymo-test-sysfs.XXXXXX");
    assert_non_null(mkdtemp(root));
    assert_int_equal(sysfs_init(&s, root, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return kymo_file_remove_tree(root, NULL);
}

static void put(enum sysfs_id id, unsigned device, unsigned core, unsigned value, const char *text)
{
    char path[SYSFS_PATH_MAX], *slash;
    struct kymo_err err = {0};

    assert_int_equal(sysfs_path(&s, id, device, core, 0, value, path, &err), 0);
    slash = strrchr(path, '/');
    *slash = 0;
    assert_int_equal(kymo_file_mkdirs(path, &err), 0);
    *slash = '/';
    assert_int_equal(kymo_file_write_atomic(path, text, strlen(text), &err), 0);
}

static void put_device(unsigned device, const char *name)
{
    put(SYSFS_CORE_COUNT, device, 0, 0, "8"); /* without an end of line, as the driver writes it */
    put(SYSFS_DEVICE_NAME, device, 0, 0, name);
    put(SYSFS_ARCH_TYPE, device, 0, 0, "NDv3\n");
    put(SYSFS_SERIAL, device, 0, 0, "0123456789abcdef\n");
}

static void test_roots(void **state)
{
    static const struct {
        const char *root, *system;
    } cases[] = {
        {"/sys/devices/virtual/neuron_device", "/sys"},
        {"/sys/class/neuron_device/", "/sys"},
        {"/tmp/x", "/tmp/x"},
        {"/devices/virtual/neuron_device", ""},
        {"/", "/"},
    };
    char path[SYSFS_PATH_MAX], text[400];
    struct kymo_err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(sysfs_init(&s, cases[i].root, NULL), 0);
        assert_string_equal(s.system, cases[i].system);
    }
    (void)setenv("KYMO_SYSFS", "/somewhere", 1);
    assert_int_equal(sysfs_init(&s, NULL, NULL), 0);
    assert_string_equal(s.root, "/somewhere");
    (void)unsetenv("KYMO_SYSFS");
    assert_int_equal(sysfs_init(&s, NULL, NULL), 0);
    assert_string_equal(s.root, SYSFS_ROOT);
    assert_int_equal(sysfs_path(&s, SYSFS_DRIVER_VERSION, 0, 0, 0, 0, path, NULL), 0);
    assert_string_equal(path, "/sys/module/neuron/version");
    assert_int_equal(sysfs_path(&s, SYSFS_CORE_MEMORY_BY_KIND, 3, 5, 1, SYSFS_PEAK, path, NULL), 0);
    assert_string_equal(path, SYSFS_ROOT "/neuron3/neuron_core5/stats/memory_usage/device_mem/tensors/peak");
    assert_int_equal(sysfs_path(&s, SYSFS_STATUS, 0, 0, 0, SYSFS_PEAK, path, &err), -EINVAL);
    assert_int_equal(sysfs_path(&s, SYSFS_STATUS, 0, 0, 99, 0, path, &err), -EINVAL);
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(sysfs_init(&s, text, &err), -ENAMETOOLONG);
}

static void test_host(void **state)
{
    struct sysfs_host host;
    struct kymo_err err = {0};

    (void)state;
    put(SYSFS_DRIVER_VERSION, 0, 0, 0, "2.31.0\n");
    put(SYSFS_PRODUCT, 0, 0, 0, "trn2.48xlarge\n");
    put_device(11, "Trainium2\n");
    put_device(2, "Inferentia2\n");
    put_device(3, "Trainium9\n");
    assert_int_equal(sysfs_read_host(&s, &host, &err), 0);
    assert_string_equal(host.driver_version, "2.31.0");
    assert_string_equal(host.instance, "trn2.48xlarge");
    assert_int_equal(host.n_devices, 3);
    assert_int_equal(host.devices[0].index, 2);
    assert_string_equal(host.devices[0].arch->name, "Inf2"); /* although its arch_type says NDv3 */
    assert_null(host.devices[1].arch);
    assert_int_equal(host.devices[2].index, 11);
    assert_int_equal(host.devices[2].cores, 8);
    assert_string_equal(host.devices[2].arch->name, "Trn2");
    assert_string_equal(host.devices[2].serial, "0123456789abcdef");
}

/* Without root's rights, and with names that are no devices. */
static void test_partly(void **state)
{
    static const char *const names[] = {"neuron",
                                        "neuron64",
                                        "neuron01",
                                        "neuron1x",
                                        "neuron5/neuron_core16",
                                        "neuron5/neuron_core0",
                                        "neuron5/neuron_core1"};
    struct sysfs_host host;
    char path[160];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", root, names[i]);
        assert_int_equal(kymo_file_mkdirs(path, NULL), 0);
    }
    assert_int_equal(sysfs_read_host(&s, &host, NULL), 0);
    assert_int_equal(host.n_devices, 1);
    assert_int_equal(host.devices[0].index, 5);
    assert_int_equal(host.devices[0].cores, 2);
    assert_string_equal(host.driver_version, "");
    assert_null(host.devices[0].arch);
}

static void test_absent(void **state)
{
    struct sysfs_host host;
    struct kymo_err err = {0};
    struct sysfs none;

    (void)state;
    assert_int_equal(sysfs_init(&none, "/tmp/kymo-test-no-such-sysfs", NULL), 0);
    assert_int_equal(sysfs_read_host(&none, &host, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/tmp/kymo-test-no-such-sysfs"));
}

static void test_memory(void **state)
{
    struct sysfs_host host;
    struct sysfs_memory memory = {.used = 7};
    struct kymo_err err = {0};

    (void)state;
    put_device(0, "Trainium2\n");
    put(SYSFS_CORE_MEMORY, 0, 4, SYSFS_PRESENT, "1000\n");
    put(SYSFS_CORE_MEMORY, 0, 5, SYSFS_PRESENT, "24\n");
    assert_int_equal(sysfs_read_host(&s, &host, NULL), 0);
    assert_int_equal(sysfs_read_memory(&s, &host.devices[0], 4, 2, &memory, &err), 0);
    assert_int_equal(memory.used, 1024);
    assert_int_equal(memory.capacity, 24ull << 30);
    assert_int_equal(sysfs_read_memory(&s, &host.devices[0], 5, 2, &memory, &err), -ENOENT);
    assert_int_equal(memory.used, 1024);
    assert_int_equal(sysfs_read_memory(&s, &host.devices[0], 15, 2, &memory, &err), -EINVAL);
    assert_int_equal(sysfs_read_memory(&s, &host.devices[0], 0, 0, &memory, &err), -EINVAL);
    put(SYSFS_CORE_MEMORY, 0, 5, SYSFS_PRESENT, "18446744073709551615\n");
    assert_int_equal(sysfs_read_memory(&s, &host.devices[0], 4, 2, &memory, &err), -ERANGE);
}

static void test_wrong(void **state)
{
    static const char *const bad[] = {"", "\n", "-1\n", " 1\n", "1 2\n", "0x10\n", "18446744073709551616\n", "x"};
    char path[SYSFS_PATH_MAX], text[SYSFS_TEXT_MAX], *slash, huge[5000];
    struct kymo_err err = {0};
    uint64_t v = 5;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put(SYSFS_CORE_MEMORY, 0, 0, SYSFS_PRESENT, bad[i]);
        assert_int_equal(sysfs_number(&s, SYSFS_CORE_MEMORY, 0, 0, 0, SYSFS_PRESENT, &v, &err), -EINVAL);
        assert_int_equal(v, 5);
    }
    memset(huge, 'z', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    put(SYSFS_POWER, 0, 0, 0, huge);
    assert_int_equal(sysfs_text(&s, SYSFS_POWER, 0, 0, 0, 0, text, &err), 0);
    assert_int_equal(strlen(text), SYSFS_TEXT_MAX - 1);
    /* A pipe does not hold the reader up. */
    assert_int_equal(sysfs_path(&s, SYSFS_SERIAL, 0, 0, 0, 0, path, NULL), 0);
    slash = strrchr(path, '/');
    *slash = 0;
    assert_int_equal(kymo_file_mkdirs(path, NULL), 0);
    *slash = '/';
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_true(sysfs_text(&s, SYSFS_SERIAL, 0, 0, 0, 0, text, &err) < 0);
}

/* Every row of the table makes paths of its own. */
static void test_table(void **state)
{
    char path[SYSFS_PATH_MAX];

    (void)state;
    for (unsigned id = 0; id < SYSFS_ID_MAX; id++) {
        const struct sysfs_entry *e = sysfs_entry((enum sysfs_id)id);

        assert_non_null(e->path);
        assert_true(e->evidence == 'A' || e->evidence == 'C' || e->evidence == 'G');
        assert_true(e->mode != 0);
        assert_int_equal(e->members != NULL, e->n_members != 0);
        assert_int_equal(e->values != NULL, e->n_values != 0);
        assert_int_equal(sysfs_path(&s, (enum sysfs_id)id, 63, 15, 0, 0, path, NULL), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_roots),  TEST(test_host),  TEST(test_partly), TEST(test_absent),
        TEST(test_memory), TEST(test_wrong), TEST(test_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
