/*
 * The simulated runtime over a device served by this process: the public interface through the loader, profiles read
 * back with the NTFF reader, and requests that a rank should never send.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/sock.h"
#include "driver-iface/nrt/nrt_loader.h"
#include "driver-iface/sim/libnrt/libnrt.h"
#include "driver-iface/sim/sim_device.h"
#include "driver-iface/sim/sim_job.h"
#include "formats/ntff/ntff_reader.h"
#include "tests/unit/sim_fixture.h"

#define TIMEOUT_MS 20000
#define t sim_fixture

static const char *const variables[] = {"NEURON_RT_VISIBLE_CORES",
                                        "NEURON_LOGICAL_NC_CONFIG",
                                        "NEURON_RT_INSPECT_ENABLE",
                                        "NEURON_RT_INSPECT_OUTPUT_DIR",
                                        "NEURON_RT_INSPECT_DEVICE_PROFILE",
                                        "NEURON_RT_INSPECT_ON_FAIL",
                                        "NEURON_RT_INSPECT_DEVICE_PROFILE_NUM_WARMUP",
                                        "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS",
                                        "NEURON_RT_PROFILE_BUF_H2D_DMA_MB",
                                        "KYMO_SIM_FAIL_EXECUTION"};

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        (void)unsetenv(variables[i]);
    (void)setenv("NEURON_RT_INSPECT_OUTPUT_DIR", t.output, 1);
    assert_int_equal(kymo_file_remove_tree(t.output, NULL), 0);
    assert_int_equal(kymo_file_remove_tree(t.truth, NULL), 0);
    assert_int_equal(kymo_file_mkdirs(t.output, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    t.nrt->nrt_close();
    return 0;
}

static void init(void)
{
    assert_int_equal(t.nrt->nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
}

static nrt_model_t *load(void)
{
    nrt_model_t *m = NULL;

    assert_int_equal(t.nrt->nrt_load(t.bytes, t.size, 0, -1, &m), NRT_SUCCESS);
    return m;
}

static NRT_STATUS execute(nrt_model_t *m)
{
    return t.nrt->nrt_execute(m, NULL, NULL);
}

/* The only entry of dir whose name holds part, as a path. */
static void find(const char *dir, const char *part, char out[512])
{
    DIR *d = opendir(dir);
    unsigned found = 0;

    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (e->d_name[0] != '.' && strstr(e->d_name, part)) {
            found++;
            (void)snprintf(out, 512, "%.250s/%.250s", dir, e->d_name);
        }
    (void)closedir(d);
    if (found != 1)
        fail_msg("%s: %u entries with \"%s\"", dir, found, part);
}

static void session_dir(char out[512])
{
    char process[512];

    find(t.output, "_pid_", process);
    find(process, "", out);
}

/* Counters must close, and the truth of the same name must be there. */
static struct ntff_reader *open_profile(const char *path)
{
    struct ntff_reader *r = NULL;
    struct kymo_err err = {0};
    char name[300], truth[512];
    const char *slash = strrchr(path, '/');

    if (ntff_reader_open(path, &r, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < ntff_reader_ring_count(r); i++) {
        const struct ntff_ring *ring = ntff_reader_ring(r, i);

        assert_true(ring->has_counters);
        assert_int_equal(ring->emitted, ring->records + ring->dropped);
    }
    (void)snprintf(name, sizeof name, "%s", slash + 1);
    name[strlen(name) - strlen(".ntff")] = 0;
    (void)snprintf(truth, sizeof truth, "%s/%s/profile.tsv", t.truth, name);
    assert_int_equal(access(truth, R_OK), 0);
    return r;
}

static uint64_t records_of(const struct ntff_reader *r, Ntff__RingKind kind)
{
    uint64_t n = 0;

    for (size_t i = 0; i < ntff_reader_ring_count(r); i++)
        if (ntff_reader_ring(r, i)->kind == kind)
            n += ntff_reader_ring(r, i)->records;
    return n;
}

static void assert_same_neff(const char *dir)
{
    char path[512];
    uint8_t *bytes = NULL;
    size_t n = 0;

    find(dir, ".neff", path);
    assert_int_equal(kymo_file_read_all(path, 1u << 24, &bytes, &n, NULL), 0);
    assert_int_equal(n, t.size);
    assert_memory_equal(bytes, t.bytes, n);
    kymo_free(bytes);
}

static const char *fake_env(void *ctx, const char *name)
{
    const char *const *pairs = ctx;

    for (; *pairs; pairs += 2)
        if (strcmp(pairs[0], name) == 0)
            return pairs[1];
    return NULL;
}

#define ENV(...) ((void *)(uintptr_t)(const char *const[]){__VA_ARGS__, NULL})

static void test_environment(void **state)
{
    struct libnrt_env e;
    struct kymo_err err = {0};

    (void)state;
    assert_int_equal(
        libnrt_env_read(fake_env, ENV("NEURON_RT_VISIBLE_CORES", "4-7", "NEURON_LOGICAL_NC_CONFIG", "2"), &e, &err), 0);
    assert_int_equal(e.first_vnc, 4);
    assert_int_equal(e.vnc_count, 4);
    assert_int_equal(e.lnc, 2);
    assert_int_equal(e.sizes.bytes[KYMO_RING_INSTRUCTION], 128u << 20);
    assert_int_equal(libnrt_env_read(fake_env, ENV("NEURON_RT_NUM_CORES", "3"), &e, &err), 0);
    assert_int_equal(e.vnc_count, 3);
    assert_int_equal(libnrt_env_read(fake_env, ENV("NEURON_RT_VISIBLE_CORES", "7-4"), &e, &err), -EINVAL);
    assert_int_equal(libnrt_env_read(fake_env, ENV("NEURON_RT_VISIBLE_CORES", "1,3"), &e, &err), -EINVAL);
    assert_int_equal(libnrt_env_read(fake_env, ENV("NEURON_RT_PROFILE_BUF_DMA_MB", "x"), &e, &err), -EINVAL);
    assert_int_equal(libnrt_env_read(fake_env, ENV("KYMO_SIM_SLOW_FACTOR", "nan"), &e, &err), -EINVAL);
}

static void test_inspect_environment(void **state)
{
    struct nrt_inspect_config c;
    struct kymo_err err = {0};

    (void)state;
    assert_int_equal(libnrt_inspect_read(fake_env, ENV("A", "B"), &c, &err), 0);
    assert_false(c.enable);
    assert_int_equal(c.device_profile, LIBNRT_PROFILE_NONE);
    assert_string_equal(c.output_dir, "./output");
    assert_int_equal(libnrt_inspect_read(fake_env,
                                         ENV("NEURON_RT_INSPECT_ENABLE", "1", "NEURON_RT_INSPECT_DEVICE_PROFILE", "1",
                                             "NEURON_RT_INSPECT_OUTPUT_DIR", "/x"),
                                         &c, &err),
                     0);
    assert_true(c.enable);
    assert_int_equal(c.device_profile, LIBNRT_PROFILE_MODEL);
    assert_string_equal(c.output_dir, "/x");
    assert_int_equal(libnrt_inspect_read(fake_env, ENV("NEURON_RT_INSPECT_DEVICE_PROFILE", "all"), &c, &err), -EINVAL);
    assert_int_equal(libnrt_inspect_read(fake_env, ENV("NEURON_RT_INSPECT_ENABLE", "yes"), &c, &err), -EINVAL);
}

static void test_loader(void **state)
{
    struct nrt_loader *l = NULL;
    struct kymo_err err = {0};

    (void)state;
    assert_int_equal(nrt_loader_open("/nonexistent/libnrt.so.1", &l, &err), -ENOENT);
    assert_int_equal(nrt_loader_open("libc.so.6", &l, &err), -ENOENT);
    assert_non_null(strstr(err.text, "no Neuron runtime"));
    assert_null(nrt_loader_why(t.loader, "nrt_execute"));
    assert_non_null(nrt_loader_why(t.loader, "nrt_sys_trace_start")); /* not simulated yet */
    assert_null(t.nrt->nrt_sys_trace_start);
    assert_non_null(nrt_loader_why(t.loader, "no_such_function"));
    assert_int_equal(nrt_loader_open_loaded(&l, &err), 0); /* by its soname, without a path */
    assert_ptr_equal(nrt_loader_api(l)->nrt_init, t.nrt->nrt_init);
    l = nrt_loader_free(l);
    assert_true(nrt_loader_missing(t.loader) > 0);
    assert_string_equal(nrt_status_name(NRT_EXEC_SW_NQ_OVERFLOW), "NRT_EXEC_SW_NQ_OVERFLOW");
    assert_string_equal(nrt_status_name((NRT_STATUS)8), "unknown status");
}

static void test_statuses(void **state)
{
    nrt_model_t *m = NULL;
    uint32_t n = 0;
    nrt_version_t version;

    (void)state;
    assert_int_equal(t.nrt->nrt_load(t.bytes, t.size, 0, -1, &m), NRT_UNINITIALIZED);
    assert_int_equal(t.nrt->nrt_get_total_nc_count(&n), NRT_SUCCESS);
    assert_int_equal(n, 128);
    assert_int_equal(t.nrt->nrt_init(NRT_FRAMEWORK_TYPE_INVALID, "", ""), NRT_INVALID);
    (void)setenv("NEURON_RT_VISIBLE_CORES", "5", 1);
    init();
    assert_int_equal(t.nrt->nrt_get_visible_vnc_count(&n), NRT_SUCCESS);
    assert_int_equal(n, 1);
    assert_int_equal(t.nrt->nrt_load(t.bytes, t.size, 1, -1, &m), NRT_LOAD_NOT_ENOUGH_NC);
    assert_int_equal(t.nrt->nrt_load("nonsense", 8, 0, -1, &m), NRT_INVALID);
    assert_int_equal(execute((nrt_model_t *)&n), NRT_INVALID_HANDLE);
    m = load();
    assert_int_equal(t.nrt->nrt_execute_repeat(m, NULL, NULL, 0), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_execute_repeat(m, NULL, NULL, 3), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_unload(m), NRT_SUCCESS);
    assert_int_equal(execute(m), NRT_INVALID_HANDLE);
    assert_int_equal(t.nrt->nrt_get_version(&version, sizeof version), NRT_SUCCESS);
    assert_int_equal(version.rt_major, 2);
    t.nrt->nrt_close();
    assert_int_equal(t.nrt->nrt_unload(m), NRT_CLOSED);
}

static void test_refused_configurations(void **state)
{
    (void)state;
    (void)setenv("NEURON_LOGICAL_NC_CONFIG", "2", 1); /* the device runs with 1 */
    assert_int_equal(t.nrt->nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_INVALID);
    (void)unsetenv("NEURON_LOGICAL_NC_CONFIG");
    (void)setenv("NEURON_RT_VISIBLE_CORES", "127-128", 1);
    assert_int_equal(t.nrt->nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_INVALID);
    (void)unsetenv("NEURON_RT_VISIBLE_CORES");
    (void)setenv("KYMO_SIM_SOCKET", "/nonexistent", 1);
    assert_int_equal(t.nrt->nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_FAILURE);
    (void)setenv("KYMO_SIM_SOCKET", t.socket, 1);
}

static void test_tensors(void **state)
{
    nrt_tensor_t *a = NULL, *b = NULL, *slice = NULL, *other = NULL, *found = NULL;
    nrt_tensor_set_t *set = NULL;
    char data[64] = "to the device and back", back[64] = "";
    const nrt_tensor_batch_op_t ops[2] = {{0, 8, back}, {8, 8, back + 8}};

    (void)state;
    init();
    assert_int_equal(t.nrt->nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 0, "a", &a), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 128, 64, "a", &a), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "a", &a), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, -1, 64, "b", &b), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 1, 64, NULL, &other), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_tensor_write(a, data, 0, sizeof data), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_tensor_write(a, data, 1, sizeof data), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_tensor_write(a, data, SIZE_MAX, 2), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_tensor_copy(a, 0, b, 0, 64), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_tensor_copy(a, 0, other, 0, 64), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_tensor_read(b, back, 0, sizeof back), NRT_SUCCESS);
    assert_memory_equal(data, back, sizeof data);
    assert_int_equal(t.nrt->nrt_tensor_allocate_slice(a, 3, 3, "slice", &slice), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_tensor_allocate_slice(a, 62, 3, "slice", &found), NRT_INVALID);
    t.nrt->nrt_tensor_free(&a);
    assert_null(a);
    assert_int_equal(t.nrt->nrt_tensor_read(slice, back, 0, 3), NRT_SUCCESS);
    assert_memory_equal(back, "the", 3);
    const nrt_tensor_batch_t batch = {.tensor = b, .ops = ops, .num_ops = 2};
    assert_int_equal(t.nrt->nrt_tensor_read_batch(&batch, 1, false), NRT_SUCCESS);
    assert_memory_equal(back, data, 16);
    assert_int_equal(t.nrt->nrt_allocate_tensor_set(&set), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_add_tensor_to_tensor_set(set, "x", b), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_get_tensor_from_tensor_set(set, "x", &found), NRT_SUCCESS);
    assert_ptr_equal(found, b);
    assert_int_equal(t.nrt->nrt_get_tensor_from_tensor_set(set, "y", &found), NRT_INVALID);
    t.nrt->nrt_destroy_tensor_set(&set);
    t.nrt->nrt_tensor_free(&slice);
    t.nrt->nrt_tensor_free(&other);
    t.nrt->nrt_tensor_free(&b);
}

static void test_profile_of_a_model(void **state)
{
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = NULL;
    const Ntff__NtffInfo *info;
    char path[128];
    nrt_model_t *m;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/one.ntff", t.output);
    init();
    m = load();
    assert_int_equal(t.nrt->nrt_profile_stop(path), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_profile_start(m, path), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_profile_start(m, "/tmp/other.ntff"), NRT_EXEC_NC_BUSY);
    assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_profile_stop(path), NRT_SUCCESS);
    r = open_profile(path);
    info = ntff_reader_info(r);
    assert_int_equal(info->mode, NTFF__CAPTURE_MODE__MODE_MODEL);
    assert_string_equal(info->instance_type, "trn2.48xlarge");
    assert_int_equal(info->n_execution_timeline, 2);
    assert_int_equal(info->n_neff_nodes, 1);
    assert_true(info->n_clock_syncs >= 2);
    assert_int_equal(info->host_dma, NTFF__HOST_DMA_STATE__HOST_DMA_TRACED);
    assert_true(records_of(r, NTFF__RING_KIND__RING_INSTRUCTION) > 2 * 5 * 20 * 2);
    assert_int_equal(records_of(r, NTFF__RING_KIND__RING_DMA), 2u * 2u * 4u * 16u);
    assert_true(records_of(r, NTFF__RING_KIND__RING_H2D_DMA) > 0);
}

static void test_inspection_by_model(void **state)
{
    char dir[512], path[512];
    nrt_model_t *m;

    (void)state;
    (void)setenv("NEURON_RT_INSPECT_ENABLE", "1", 1);
    (void)setenv("NEURON_RT_INSPECT_DEVICE_PROFILE", "model", 1);
    (void)setenv("NEURON_RT_INSPECT_DEVICE_PROFILE_NUM_WARMUP", "1", 1);
    init();
    m = load();
    assert_int_equal(execute(m), NRT_SUCCESS);
    session_dir(dir);
    assert_int_equal(rmdir(dir), 0); /* still empty: the first execution warms up */
    assert_int_equal(mkdir(dir, 0755), 0);
    assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(execute(m), NRT_SUCCESS);
    find(dir, "_instid_0_vnc_0.ntff", path);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = open_profile(path);
    assert_int_equal(ntff_reader_info(r)->n_execution_timeline, 1);
    assert_same_neff(dir);
}

static void test_inspection_by_session(void **state)
{
    char dir[512], path[512];
    nrt_model_t *m, *second;
    struct stat st;

    (void)state;
    (void)setenv("NEURON_RT_INSPECT_ENABLE", "1", 1);
    (void)setenv("NEURON_RT_INSPECT_DEVICE_PROFILE", "session", 1);
    init();
    m = load();
    assert_int_equal(t.nrt->nrt_load(t.bytes, t.size, 1, -1, &second), NRT_SUCCESS); /* a core that executes nothing */
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_unload(m), NRT_SUCCESS); /* the session still needs it */
    t.nrt->nrt_close();
    session_dir(dir);
    find(dir, "profile_nc_1_session_", path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
    find(dir, "profile_nc_0_session_", path);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = open_profile(path);
    assert_int_equal(ntff_reader_info(r)->n_execution_timeline, 5);
    assert_true(ntff_reader_info(r)->n_session_notifications > 0);
    assert_same_neff(dir);
}

static void test_session_with_options(void **state)
{
    char dir[512], path[512];
    nrt_inspect_config_t *c = NULL;
    const char **types = NULL;
    size_t n = 0;
    nrt_model_t *m;

    (void)state;
    init();
    m = load();
    assert_int_equal(t.nrt->nrt_inspect_config_allocate(&c), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_inspect_begin_with_options(NULL), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_inspect_config_set_output_dir(c, ""), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_inspect_config_set_output_dir(c, t.output), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_inspect_config_set_activity(c, "nothing", true), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_inspect_config_set_activity(c, "all", false), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_inspect_config_set_activity(c, "device_profile", true), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_inspect_config_get_enabled_activity_types(c, &types, &n), NRT_SUCCESS);
    assert_int_equal(n, 1);
    assert_string_equal(types[0], "device_profile");
    t.nrt->nrt_inspect_config_free_activity_types(types, n);
    assert_int_equal(t.nrt->nrt_inspect_config_set_enable_inspect(c, true), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_inspect_config_set_session_id(c, 40), NRT_SUCCESS);
    assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_inspect_begin_with_options(c), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_inspect_begin_with_options(c), NRT_INVALID);
    assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_inspect_stop(), NRT_SUCCESS);
    assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_inspect_config_free(c), NRT_SUCCESS);
    session_dir(dir);
    find(dir, "profile_nc_0_session_4", path);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = open_profile(path);
    assert_int_equal(ntff_reader_info(r)->n_execution_timeline, 1);
}

static void test_continuous(void **state)
{
    nrt_profile_continuous_options_t *o = NULL;
    char path[512];
    nrt_model_t *m;

    (void)state;
    init();
    m = load();
    assert_int_equal(t.nrt->nrt_profile_continuous_options_allocate(&o), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_profile_continuous_options_set_output_dir(o, t.output), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_profile_continuous_save(0, o), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_profile_continuous_start(o), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_profile_continuous_save(0, o), NRT_INVALID); /* nothing ran yet */
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_profile_continuous_save(0, o), NRT_SUCCESS);
    find(t.output, ".ntff", path);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = open_profile(path);
    assert_int_equal(ntff_reader_info(r)->mode, NTFF__CAPTURE_MODE__MODE_CONTINUOUS);
    assert_int_equal(ntff_reader_info(r)->n_execution_timeline, 1); /* the latest alone */
    assert_int_equal(records_of(r, NTFF__RING_KIND__RING_DMA), 2u * 4u * 16u);
    assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_profile_continuous_stop(), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_profile_continuous_stop(), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_profile_continuous_options_free(o), NRT_SUCCESS);
}

static void test_on_failure(void **state)
{
    char dir[512], path[512];
    nrt_model_t *m;

    (void)state;
    (void)setenv("NEURON_RT_INSPECT_ON_FAIL", "1", 1);
    (void)setenv("KYMO_SIM_FAIL_EXECUTION", "3", 1);
    init();
    m = load();
    assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(execute(m), NRT_EXEC_COMPLETED_WITH_ERR);
    assert_int_equal(execute(m), NRT_SUCCESS);
    session_dir(dir);
    find(dir, ".ntff", path);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = open_profile(path);
    assert_int_equal(ntff_reader_info(r)->mode, NTFF__CAPTURE_MODE__MODE_ON_FAILURE);
    assert_int_equal(ntff_reader_info(r)->execution_timeline[0]->status, NRT_EXEC_COMPLETED_WITH_ERR);
}

static void wait_completed(nrta_seq_t seq)
{
    bool done = false;

    for (unsigned i = 0; i < TIMEOUT_MS && !done; i++) {
        assert_int_equal(t.nrt->nrta_is_completed(seq, &done), NRT_SUCCESS);
        if (!done)
            (void)usleep(1000);
    }
    assert_true(done);
}

static void test_async(void **state)
{
    nrta_error_tracker_t *errors = NULL;
    nrt_profile_continuous_options_t *o = NULL;
    const nrta_error_t *list = NULL;
    char dir[512], path[512];
    nrta_seq_t seq = 0, last = 0;
    size_t n = 0;
    bool done;
    nrt_model_t *m;

    (void)state;
    (void)setenv("NEURON_RT_INSPECT_ENABLE", "1", 1);
    (void)setenv("NEURON_RT_INSPECT_DEVICE_PROFILE", "session", 1);
    (void)setenv("KYMO_SIM_FAIL_EXECUTION", "10", 1);
    init();
    m = load();
    assert_int_equal(t.nrt->nrta_error_tracker_create(0, &errors), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrta_execute_schedule(m, NULL, NULL, 1, errors, &seq), NRT_INVALID);
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(t.nrt->nrta_execute_schedule(m, NULL, NULL, 0, errors, &seq), NRT_SUCCESS);
    wait_completed(seq);
    assert_int_equal(t.nrt->nrta_get_sequence(0, NRTA_XU_COMPUTE, 0, &last), NRT_SUCCESS);
    assert_int_equal(last, seq);
    assert_int_equal(t.nrt->nrta_is_completed(seq + 1, &done), NRT_INVALID);
    assert_int_equal(t.nrt->nrta_error_tracker_get_list(errors, &list, &n), NRT_SUCCESS);
    assert_int_equal(n, 1);
    assert_int_equal(list[0].error_code, NRT_EXEC_COMPLETED_WITH_ERR);
    assert_int_equal(list[0].seq_id & NRTA_SEQ_NUM_MASK, 10);
    t.nrt->nrta_error_tracker_destroy(errors);
    assert_int_equal(t.nrt->nrt_inspect_stop(), NRT_SUCCESS);
    session_dir(dir);
    find(dir, ".ntff", path);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = open_profile(path);
    assert_int_equal(ntff_reader_info(r)->n_execution_timeline, 300);
    /* What cannot tell one execution from the next is refused from here on. */
    assert_int_equal(t.nrt->nrt_profile_start(m, "/tmp/x.ntff"), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_profile_continuous_options_allocate(&o), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_profile_continuous_start(o), NRT_INVALID);
    assert_int_equal(t.nrt->nrt_profile_continuous_options_free(o), NRT_SUCCESS);
}

static void test_implicit_async(void **state)
{
    nrt_tensor_t *tensor = NULL;
    uint8_t byte;
    nrt_model_t *m;

    (void)state;
    (void)setenv("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "4", 1);
    (void)setenv("NEURON_RT_INSPECT_ENABLE", "1", 1);
    (void)setenv("NEURON_RT_INSPECT_DEVICE_PROFILE", "model", 1);
    init(); /* goes on without the profile that it cannot take */
    m = load();
    assert_int_equal(t.nrt->nrt_execute_repeat(m, NULL, NULL, 20), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 1, NULL, &tensor), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_tensor_read(tensor, &byte, 0, 1), NRT_SUCCESS);
    t.nrt->nrt_tensor_free(&tensor);
    assert_int_equal(t.nrt->nrt_profile_start(m, "/tmp/x.ntff"), NRT_INVALID);
}

/* A process of its own: it is ended by the signal, after its session was written. */
static void test_signal_ends_session(void **state)
{
    char dir[512], path[512];
    int ready[2], status = 0;
    char byte;
    pid_t child;

    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no thread in a child of a process with threads */
#endif
    (void)setenv("NEURON_RT_INSPECT_ENABLE", "1", 1);
    (void)setenv("NEURON_RT_INSPECT_DEVICE_PROFILE", "session", 1);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        nrt_model_t *m = NULL;
        bool ok = t.nrt->nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") == NRT_SUCCESS &&
                  t.nrt->nrt_load(t.bytes, t.size, 0, -1, &m) == NRT_SUCCESS && execute(m) == NRT_SUCCESS;

        if (!ok || write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
    session_dir(dir);
    find(dir, ".ntff", path);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = open_profile(path);
    assert_int_equal(ntff_reader_info(r)->n_execution_timeline, 1);
}

static void test_host_dma_states(void **state)
{
    char path[128];
    nrt_model_t *m;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/off.ntff", t.output);
    (void)setenv("NEURON_RT_PROFILE_BUF_H2D_DMA_MB", "0", 1);
    init();
    m = load();
    assert_int_equal(t.nrt->nrt_profile_start(m, path), NRT_SUCCESS);
    assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_profile_stop(path), NRT_SUCCESS);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = open_profile(path);
    assert_int_equal(ntff_reader_info(r)->host_dma, NTFF__HOST_DMA_STATE__HOST_DMA_OFF);
    assert_int_equal(records_of(r, NTFF__RING_KIND__RING_H2D_DMA), 0);
    t.nrt->nrt_close();
    (void)unsetenv("NEURON_RT_PROFILE_BUF_H2D_DMA_MB");
    (void)setenv("NEURON_RT_VISIBLE_CORES", "1", 1);
    (void)snprintf(path, sizeof path, "%s/odd.ntff", t.output);
    init();
    m = load();
    assert_int_equal(t.nrt->nrt_profile_start(m, path), NRT_SUCCESS);
    assert_int_equal(execute(m), NRT_SUCCESS);
    assert_int_equal(t.nrt->nrt_profile_stop(path), NRT_SUCCESS);
    struct ntff_reader *odd KYMO_CLEANUP(ntff_reader_freep) = open_profile(path);
    assert_int_equal(ntff_reader_info(odd)->host_dma, NTFF__HOST_DMA_STATE__HOST_DMA_ODD_CORE);
    assert_int_equal(ntff_reader_info(odd)->start_nc, 1);
}

static void test_step_lists(void **state)
{
    bool in = false;

    (void)state;
    assert_int_equal(sim_job_step_in("3,5-7", 6, &in, NULL), 0);
    assert_true(in);
    assert_int_equal(sim_job_step_in("3,5-7", 4, &in, NULL), 0);
    assert_false(in);
    assert_int_equal(sim_job_step_in("7-5", 6, &in, NULL), -EINVAL);
    assert_int_equal(sim_job_step_in("3,", 3, &in, NULL), -EINVAL);
    assert_int_equal(sim_job_step_in("", 3, &in, NULL), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_statuses), /* first: the runtime has not been initialised before */
        TEST(test_environment),
        TEST(test_inspect_environment),
        TEST(test_loader),
        TEST(test_refused_configurations),
        TEST(test_tensors),
        TEST(test_signal_ends_session),
        TEST(test_profile_of_a_model),
        TEST(test_inspection_by_model),
        TEST(test_inspection_by_session),
        TEST(test_session_with_options),
        TEST(test_continuous),
        TEST(test_on_failure),
        TEST(test_async),
        TEST(test_implicit_async),
        TEST(test_host_dma_states),
        TEST(test_step_lists),
    };

    return cmocka_run_group_tests(tests, sim_fixture_setup, sim_fixture_teardown);
}
