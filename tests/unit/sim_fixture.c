#include "tests/unit/sim_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sock.h"
#include "tests/unit/sim_sample.h"

struct sim_fixture sim_fixture;

#define t sim_fixture

static void *serve(void *arg)
{
    struct kymo_err err = {0};

    if (sim_device_serve(t.device, t.listen_fd, t.stop[0], &err) < 0)
        (void)fprintf(stderr, "%s\n", err.text);
    return arg;
}

static void make_neff(void)
{
    const enum kymo_engine all[] = {KYMO_ENGINE_TENSOR, KYMO_ENGINE_SCALAR, KYMO_ENGINE_GPSIMD, KYMO_ENGINE_VECTOR,
                                    KYMO_ENGINE_SYNC};
    struct sample *s = sample_new(kymo_arch_find("Trn2"));

    s->queues = "\"qSyncIO0\":{\"type\":\"in\",\"owner\":\"sp\",\"num_queues\":16,\"semaphore\":7}";
    s->blocks = "{\"id\":3,\"queue\":\"qSyncIO0\",\"desc\":{\"from\":\"a\",\"from_off\":0,\"from_sizes\":[65536],"
                "\"from_steps\":[1],\"to\":\"b\",\"to_off\":0,\"to_sizes\":[65536],\"to_steps\":[1]}}";
    for (unsigned i = 0; i < 4; i++)
        sample_trigger(s, KYMO_ENGINE_SYNC, "qSyncIO0", 3);
    for (size_t e = 0; e < sizeof all / sizeof *all; e++) {
        for (unsigned i = 0; i < 20; i++)
            (void)sample_op(s, all[e], KYMO_OP_NOP);
        (void)sample_op(s, all[e], KYMO_OP_HALT);
    }
    sample_write(s, 1, t.neff);
    sample_free(s);
    assert_int_equal(kymo_file_read_all(t.neff, 1u << 24, &t.bytes, &t.size, NULL), 0);
}

int sim_fixture_setup(void **state)
{
    struct kymo_err err = {0};
    struct sim_device_config config = {
        .instance = kymo_instance_find("trn2.48xlarge"),
        .arch = kymo_arch_find("Trn2"),
        .lnc = 1,
        .driver_version = "2.31.0",
        .truth_dir = t.truth,
        .seed = 7,
        .boot_unix_ns = 1700000000000000000ull,
    };

    (void)state;
    (void)snprintf(t.dir, sizeof t.dir, "/tmp/kymo-test-nrt.XXXXXX");
    assert_non_null(mkdtemp(t.dir));
    (void)snprintf(t.socket, sizeof t.socket, "%s/device", t.dir);
    (void)snprintf(t.neff, sizeof t.neff, "%s/sample.neff", t.dir);
    (void)snprintf(t.output, sizeof t.output, "%s/output", t.dir);
    (void)snprintf(t.truth, sizeof t.truth, "%s/truth", t.dir);
    assert_int_equal(kymo_file_mkdirs(t.truth, &err), 0);
    make_neff();
    assert_int_equal(sim_device_new(&config, &t.device, &err), 0);
    t.listen_fd = kymo_sock_listen(t.socket, &err);
    assert_true(t.listen_fd >= 0);
    assert_int_equal(pipe2(t.stop, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&t.server, NULL, serve, NULL), 0);
    (void)setenv("KYMO_SIM_SOCKET", t.socket, 1);
    if (nrt_loader_open(KYMO_TEST_LIBNRT, &t.loader, &err) < 0)
        fail_msg("%s", err.text);
    t.nrt = nrt_loader_api(t.loader);
    return 0;
}

int sim_fixture_teardown(void **state)
{
    (void)state;
    assert_int_equal(write(t.stop[1], "x", 1), 1);
    assert_int_equal(pthread_join(t.server, NULL), 0);
    t.device = sim_device_free(t.device);
    t.listen_fd = kymo_file_close(t.listen_fd);
    t.stop[0] = kymo_file_close(t.stop[0]);
    t.stop[1] = kymo_file_close(t.stop[1]);
    t.loader = nrt_loader_free(t.loader);
    kymo_free(t.bytes);
    return kymo_file_remove_tree(t.dir, NULL);
}
