#include "driver-iface/sim/sim_framework.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/sock.h"
#include "driver-iface/sim/sim_wire.h"

#define ANSWER_TIMEOUT_MS (600 * 1000)
#define TEXT_MAX ((size_t)512 << 20)
#define NAME_MAX_BYTES 64

struct op {
    const char *name; /* NULL: a step */
    uint64_t step, begun, ended, sequence;
};

struct sim_framework {
    int sock;
    unsigned vnc;
    uint64_t rank;
    struct op *ops;
    size_t n, cap;
};

int sim_framework_new(uint64_t rank, struct sim_framework **ret, struct kymo_err *err)
{
    const char *socket = getenv("KYMO_SIM_SOCKET"), *cores = getenv("NEURON_RT_VISIBLE_CORES");
    struct sim_framework *f = KYMO_NEW(struct sim_framework);

    if (!f)
        return kymo_err_set(err, -ENOMEM, "no memory to trace the framework");
    f->rank = rank;
    f->vnc = cores ? (unsigned)strtoul(cores, NULL, 10) : 0;
    f->sock = socket ? kymo_sock_connect(socket, err) : kymo_err_set(err, -ENODEV, "KYMO_SIM_SOCKET is not set");
    if (f->sock < 0) {
        int r = f->sock;

        kymo_free(f);
        return r;
    }
    *ret = f;
    return 0;
}

struct sim_framework *sim_framework_free(struct sim_framework *f)
{
    if (!f)
        return NULL;
    f->sock = kymo_file_close(f->sock);
    kymo_free(f->ops);
    kymo_free(f);
    return NULL;
}

uint64_t sim_framework_now(struct sim_framework *f)
{
    struct sim_request q = {.magic = SIM_WIRE_MAGIC, .version = SIM_WIRE_VERSION, .op = SIM_OP_NOW};
    struct sim_answer a = {0};
    size_t n = sizeof a, nfds = 0;

    if (!f)
        return 0;
    q.vnc = f->vnc;
    if (kymo_sock_send(f->sock, &q, sizeof q, NULL, 0, NULL) < 0 ||
        kymo_sock_recv(f->sock, &a, &n, NULL, &nfds, ANSWER_TIMEOUT_MS, NULL) < 0 || n != sizeof a || a.error < 0)
        return 0;
    return a.host_ns;
}

static void add(struct sim_framework *f, const struct op *op)
{
    void *p = f->ops;

    if (op->begun == 0 || op->ended < op->begun)
        return;
    if (kymo_grow(&p, &f->cap, f->n + 1, SIM_FRAMEWORK_OPS_MAX, sizeof *f->ops) == 0) {
        f->ops = p;
        f->ops[f->n++] = *op;
    }
}

void sim_framework_op(struct sim_framework *f, const char *name, uint64_t begun, uint64_t sequence)
{
    if (f)
        add(f, &(struct op){.name = name, .begun = begun, .ended = sim_framework_now(f), .sequence = sequence});
}

void sim_framework_step(struct sim_framework *f, uint64_t step, uint64_t begun)
{
    if (f)
        add(f, &(struct op){
                   .step = step, .begun = begun, .ended = sim_framework_now(f), .sequence = SIM_FRAMEWORK_NO_SEQUENCE});
}

static int put_op(struct kymo_buf *b, const struct sim_framework *f, const struct op *op)
{
    uint64_t length = op->ended - op->begun;
    int r;

    if (op->name)
        r = kymo_buf_printf(b, ",\n{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"%s\"", op->name);
    else
        r = kymo_buf_printf(b, ",\n{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%" PRIu64 "\"",
                            op->step);
    if (r == 0)
        r = kymo_buf_printf(
            b, ",\"pid\":%d,\"tid\":%d,\"ts\":%" PRIu64 ".%03u,\"dur\":%" PRIu64 ".%03u,\"args\":{\"rank\":%" PRIu64,
            (int)getpid(), (int)getpid(), op->begun / 1000, (unsigned)(op->begun % 1000), length / 1000,
            (unsigned)(length % 1000), f->rank);
    if (r == 0 && op->sequence != SIM_FRAMEWORK_NO_SEQUENCE)
        r = kymo_buf_printf(b, ",\"stream\":0,\"nrt_sequence_id\":%" PRIu64, op->sequence);
    return r == 0 ? kymo_buf_append(b, "}}", 2) : r;
}

static int put_all(struct kymo_buf *b, const struct sim_framework *f)
{
    int r = kymo_buf_printf(b,
                            "{\"schemaVersion\":1,\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\","
                            "\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"kymo-sim job\"}}",
                            (int)getpid());

    for (size_t i = 0; r == 0 && i < f->n; i++)
        r = put_op(b, f, &f->ops[i]);
    return r == 0 ? kymo_buf_printf(b, "\n]}\n") : r;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && !strcmp(text + n - m, end);
}

/* The greatest name that ends so: names of sessions are times of one length. */
static char *find_entry(const char *dir, const char *end)
{
    char found[NAME_MAX_BYTES] = "";
    DIR *d = opendir(dir);

    for (const struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && strlen(e->d_name) < sizeof found && (!*end || ends_in(e->d_name, end)) &&
            strcmp(e->d_name, found) > 0)
            (void)snprintf(found, sizeof found, "%s", e->d_name);
    if (d)
        (void)closedir(d);
    return *found ? kymo_asprintf("%s/%s", dir, found) : NULL;
}

int sim_framework_write(const struct sim_framework *f, const char *output, struct kymo_err *err)
{
    char end[32];
    struct kymo_buf b;
    int r;

    if (!f)
        return 0;
    (void)snprintf(end, sizeof end, "_pid_%d", (int)getpid());
    char *process KYMO_FREE = find_entry(output, end);
    char *session KYMO_FREE = process ? find_entry(process, "") : NULL;
    char *path KYMO_FREE = session ? kymo_asprintf("%s/trace.json", session) : NULL;
    if (!path)
        return 0;
    kymo_buf_init(&b, TEXT_MAX);
    r = put_all(&b, f);
    r = r < 0 ? kymo_err_set(err, r, "%s: no memory for its text", path)
              : kymo_file_write_atomic(path, b.data, b.len, err);
    kymo_buf_done(&b);
    return r;
}
