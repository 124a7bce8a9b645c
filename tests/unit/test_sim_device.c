/* The device process's protocol: messages and requests that a rank should never send, and ranks that die. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/sock.h"
#include "driver-iface/sim/sim_wire.h"
#include "tests/unit/sim_fixture.h"

#define TIMEOUT_MS 20000
#define t sim_fixture

static int raw_connect(void)
{
    int fd = kymo_sock_connect(t.socket, NULL);

    assert_true(fd >= 0);
    return fd;
}

static int raw_call(int fd, const struct sim_request *q, int in_fd, struct sim_answer *a)
{
    size_t n = sizeof *a, nfds = 1;
    int got = -1;
    int r = kymo_sock_send(fd, q, sizeof *q, &in_fd, in_fd >= 0 ? 1 : 0, NULL);

    if (r == 0)
        r = kymo_sock_recv(fd, a, &n, &got, &nfds, TIMEOUT_MS, NULL);
    if (r == 0 && nfds == 1)
        (void)close(got);
    return r < 0 ? r : a->error;
}

static struct sim_request raw_request(enum sim_op_code op, unsigned vnc)
{
    return (struct sim_request){.magic = SIM_WIRE_MAGIC,
                                .version = SIM_WIRE_VERSION,
                                .op = (uint16_t)op,
                                .vnc = vnc,
                                .attach = {.slow_factor = 1.0}};
}

static void test_bad_messages(void **state)
{
    struct sim_request q = raw_request(SIM_OP_HELLO, 0);
    struct sim_answer a;
    struct sim_request bad[4] = {q, q, q, q};

    (void)state;
    bad[0].magic++;
    bad[1].version++;
    bad[2].op = SIM_OP_MAX;
    bad[3].idle_ps = UINT64_MAX;
    for (size_t i = 0; i < 4; i++) {
        int fd KYMO_CLOSE = raw_connect();

        assert_true(raw_call(fd, &bad[i], -1, &a) < 0);
    }
    int fd KYMO_CLOSE = raw_connect();
    assert_int_equal(kymo_sock_send(fd, &q, sizeof q - 1, NULL, 0, NULL), 0);
    size_t n = sizeof a;
    assert_true(kymo_sock_recv(fd, &a, &n, NULL, NULL, TIMEOUT_MS, NULL) < 0);
    int good KYMO_CLOSE = raw_connect();
    assert_int_equal(raw_call(good, &q, -1, &a), 0);
    assert_string_equal(a.hello.instance, "trn2.48xlarge");
    assert_int_equal(a.hello.vnc_count, 128);
}

static void test_refused_requests(void **state)
{
    int fd KYMO_CLOSE = raw_connect();
    int plain KYMO_CLOSE = open(t.neff, O_RDONLY | O_CLOEXEC);
    struct sim_answer a;
    struct sim_request q = raw_request(SIM_OP_ARM, 9);

    (void)state;
    assert_int_equal(raw_call(fd, &q, -1, &a), -EPERM); /* not attached */
    q = raw_request(SIM_OP_ATTACH, 128);
    assert_int_equal(raw_call(fd, &q, -1, &a), -EINVAL);
    q = raw_request(SIM_OP_ATTACH, 9);
    q.attach.slow_factor = -1;
    assert_int_equal(raw_call(fd, &q, -1, &a), -EINVAL);
    q.attach.slow_factor = 1;
    assert_int_equal(raw_call(fd, &q, -1, &a), 0);
    q = raw_request(SIM_OP_LOAD, 9);
    q.bytes = t.size;
    assert_int_equal(raw_call(fd, &q, -1, &a), -EINVAL);    /* no descriptor */
    assert_int_equal(raw_call(fd, &q, plain, &a), -EINVAL); /* a file that may shrink under the reader */
    q = raw_request(SIM_OP_ARM, 9);
    for (int i = 0; i < KYMO_RING_MAX; i++)
        q.sizes[i] = 1u << 20;
    q.sizes[KYMO_RING_DMA] = 1000;
    assert_int_equal(raw_call(fd, &q, -1, &a), -EINVAL);
    q.sizes[KYMO_RING_DMA] = 1u << 20;
    assert_int_equal(raw_call(fd, &q, -1, &a), 0);
    assert_int_equal(raw_call(fd, &q, -1, &a), -EALREADY);
    q = raw_request(SIM_OP_TRUTH, 9);
    (void)snprintf(q.name, sizeof q.name, "../.outside");
    assert_int_equal(raw_call(fd, &q, -1, &a), -EINVAL);
    q = raw_request(SIM_OP_EXECUTE, 9);
    q.model_id = 4711;
    assert_int_equal(raw_call(fd, &q, -1, &a), -EBADF);
    q = raw_request(SIM_OP_RESULT, 9);
    q.sequence = 1;
    assert_int_equal(raw_call(fd, &q, -1, &a), -ENOENT);
    q = raw_request(SIM_OP_CLOCK, 9);
    q.nc_idx = 1; /* vnc 9 is core 1 of device 1 */
    assert_int_equal(raw_call(fd, &q, -1, &a), -ENODATA);
    q.nc_idx = 2;
    assert_int_equal(raw_call(fd, &q, -1, &a), -EINVAL);
}

/* Memory of a core is its share of the device's, whoever asks how often. */
static void test_memory(void **state)
{
    int fd KYMO_CLOSE = raw_connect();
    struct sim_answer a;
    struct sim_request q = raw_request(SIM_OP_MEMORY, 31);

    (void)state;
    q.bytes = 1ull << 30;
    assert_int_equal(raw_call(fd, &q, -1, &a), -EPERM); /* not attached */
    q = raw_request(SIM_OP_ATTACH, 31);
    assert_int_equal(raw_call(fd, &q, -1, &a), 0);
    for (int life = 0; life < 2; life++) {
        unsigned taken = 0;

        q = raw_request(SIM_OP_MEMORY, 31);
        q.bytes = UINT64_MAX;
        assert_int_equal(raw_call(fd, &q, -1, &a), -ENOMEM);
        q.bytes = 1ull << 30;
        while (taken < 100 && raw_call(fd, &q, -1, &a) == 0)
            taken++;
        assert_int_equal(taken, 11); /* of 12, which the runtime shares */
        assert_int_equal(a.nrt_status, 4);
        q.flags = SIM_FLAG_GIVE;
        assert_int_equal(raw_call(fd, &q, -1, &a), 0);
        q.flags = 0;
        assert_int_equal(raw_call(fd, &q, -1, &a), 0);
        assert_int_equal(raw_call(fd, &q, -1, &a), -ENOMEM);
        q = raw_request(SIM_OP_DETACH, 31); /* gives all of it back */
        assert_int_equal(raw_call(fd, &q, -1, &a), 0);
        q = raw_request(SIM_OP_ATTACH, 31);
        assert_int_equal(raw_call(fd, &q, -1, &a), 0);
    }
}

/* A rank that dies, even while it holds its core frozen, leaves the core free for the next one. */
static void test_rank_that_dies(void **state)
{
    struct sim_request q = raw_request(SIM_OP_ATTACH, 20);
    struct sim_answer a;
    int first = raw_connect();
    int second KYMO_CLOSE = raw_connect();
    int r = -EBUSY;

    (void)state;
    assert_int_equal(raw_call(first, &q, -1, &a), 0);
    assert_int_equal(raw_call(second, &q, -1, &a), -EBUSY);
    q = raw_request(SIM_OP_ARM, 20);
    for (int i = 0; i < KYMO_RING_MAX; i++)
        q.sizes[i] = 1u << 20;
    assert_int_equal(raw_call(first, &q, -1, &a), 0);
    q = raw_request(SIM_OP_FREEZE, 20);
    assert_int_equal(raw_call(first, &q, -1, &a), 0);
    (void)close(first);
    q = raw_request(SIM_OP_ATTACH, 20);
    for (unsigned i = 0; i < TIMEOUT_MS && r == -EBUSY; i++) {
        r = raw_call(second, &q, -1, &a);
        if (r == -EBUSY)
            (void)usleep(1000);
    }
    assert_int_equal(r, 0);
    q = raw_request(SIM_OP_ADVANCE, 20); /* needs the lock that the dead one held */
    assert_int_equal(raw_call(second, &q, -1, &a), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_messages),
        cmocka_unit_test(test_refused_requests),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_rank_that_dies),
    };

    return cmocka_run_group_tests(tests, sim_fixture_setup, sim_fixture_teardown);
}
