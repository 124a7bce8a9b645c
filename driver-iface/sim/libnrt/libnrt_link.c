/* The connection to the device process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sock.h"
#include "driver-iface/sim/libnrt/libnrt.h"

#define ANSWER_TIMEOUT_MS (600 * 1000) /* a long execution is simulated slower than it would run */

void libnrt_request(struct sim_request *q, enum sim_op_code op, unsigned vnc)
{
    *q = (struct sim_request){
        .magic = SIM_WIRE_MAGIC, .version = SIM_WIRE_VERSION, .op = (uint16_t)op, .vnc = (uint32_t)vnc};
}

static int check_answer(const struct sim_answer *a, size_t n, unsigned op, struct kymo_err *err)
{
    if (n != sizeof *a || a->magic != SIM_WIRE_MAGIC || a->version != SIM_WIRE_VERSION || a->op != op ||
        memchr(a->text, 0, sizeof a->text) == NULL)
        return kymo_err_set(err, -EPROTO, "device process: an answer of %zu bytes is none of version %u", n,
                            SIM_WIRE_VERSION);
    if (a->error < 0)
        return kymo_err_set(err, a->error, "device process: %s", a->text);
    return 0;
}

static int exchange(int sock, const struct sim_request *q, int in_fd, struct sim_answer *a, int *ret_fd,
                    struct kymo_err *err)
{
    size_t n = sizeof *a, nfds = 1;
    int fd KYMO_CLOSE = -1;
    int r = kymo_sock_send(sock, q, sizeof *q, &in_fd, in_fd >= 0 ? 1 : 0, err);

    if (r < 0)
        return r;
    *a = (struct sim_answer){0};
    r = kymo_sock_recv(sock, a, &n, &fd, &nfds, ANSWER_TIMEOUT_MS, err);
    if (r < 0)
        return r;
    r = check_answer(a, n, q->op, err);
    if (r < 0)
        return r;
    if (ret_fd) {
        if (nfds != 1)
            return kymo_err_set(err, -EPROTO, "device process: an answer without its descriptor");
        *ret_fd = fd;
        fd = -1;
    }
    return 0;
}

int libnrt_call(const struct sim_request *q, int in_fd, struct sim_answer *a, int *ret_fd, struct kymo_err *err)
{
    return exchange(rt.sock, q, in_fd, a, ret_fd, err);
}

int libnrt_connect(int *ret_sock, struct sim_wire_hello *ret, struct kymo_err *err)
{
    const char *path = getenv("KYMO_SIM_SOCKET");
    struct sim_request q;
    struct sim_answer a;
    int sock KYMO_CLOSE = -1;
    int r;

    if (!path || !*path)
        return kymo_err_set(err, -ENODEV,
                            "KYMO_SIM_SOCKET does not name a device process (kymo-sim device --socket PATH)");
    sock = kymo_sock_connect(path, err);
    if (sock < 0)
        return sock;
    libnrt_request(&q, SIM_OP_HELLO, 0);
    r = exchange(sock, &q, -1, &a, NULL, err);
    if (r < 0)
        return r;
    if (!memchr(a.hello.instance, 0, sizeof a.hello.instance) ||
        !memchr(a.hello.driver_version, 0, sizeof a.hello.driver_version))
        return kymo_err_set(err, -EPROTO, "device process: its greeting has no end");
    *ret = a.hello;
    *ret_sock = sock;
    sock = -1;
    return 0;
}
