/* kymo capture: asks this host's daemon for captures now, and waits for them when told to. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/core_list.h"
#include "base/plain.h"
#include "tools/control_client.h"
#include "tools/subcommands.h"
#include "tools/tree.h"

#define ANSWER_MS 15000
#define WAIT_DEFAULT "600"
#define CAPTURES_MAX 256

typedef Kymo__Control__CaptureRequest Request;
typedef Kymo__Control__CaptureProgress Progress;

struct args {
    const char *job, *cores, *socket;
    uint64_t pid, step, steps, duration_ms, one_in, wait_s;
    int mode, until;
    bool json;
};

static const struct kymo_option rows[] = {
    {.name = "job",
     .type = KYMO_OPTION_TEXT,
     .arg = "JOB",
     .offset = offsetof(struct args, job),
     .help = "ranks of it"},
    {.name = "pid",
     .type = KYMO_OPTION_U64,
     .arg = "PID",
     .min = 1,
     .max = INT32_MAX,
     .offset = offsetof(struct args, pid),
     .help = "this process"},
    {.name = "cores",
     .type = KYMO_OPTION_TEXT,
     .arg = "LIST",
     .offset = offsetof(struct args, cores),
     .help = "ranks that have one of these logical cores, such as 0,4-7"},
    {.name = "one-in",
     .type = KYMO_OPTION_U64,
     .arg = "K",
     .min = 1,
     .max = UINT32_MAX,
     .offset = offsetof(struct args, one_in),
     .help = "one rank in so many of those that are meant (default: all)"},
    {.name = "mode",
     .type = KYMO_OPTION_CHOICE,
     .choices = "continuous|model|session",
     .offset = offsetof(struct args, mode),
     .help = "how; default: as the policy says"},
    {.name = "step",
     .type = KYMO_OPTION_U64,
     .arg = "N",
     .min = 1,
     .offset = offsetof(struct args, step),
     .help = "this execution of the step model (default: the next)"},
    {.name = "steps",
     .type = KYMO_OPTION_U64,
     .arg = "COUNT",
     .min = 1,
     .max = UINT32_MAX,
     .offset = offsetof(struct args, steps),
     .help = "so many in one session (default: as the policy says)"},
    {.name = "duration",
     .type = KYMO_OPTION_U64,
     .arg = "MS",
     .min = 1,
     .max = CONTROL_WAIT_MS_MAX,
     .offset = offsetof(struct args, duration_ms),
     .help = "a session of this time instead"},
    {.name = "wait",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .implied = WAIT_DEFAULT,
     .min = 1,
     .max = CONTROL_WAIT_MS_MAX / 1000,
     .offset = offsetof(struct args, wait_s),
     .help = "follow the captures to their end, at most so long (without a number: " WAIT_DEFAULT ")"},
    {.name = "until",
     .type = KYMO_OPTION_CHOICE,
     .choices = "spooled|sent",
     .offset = offsetof(struct args, until),
     .help = "that end: in this host's spool, or at a collector (default: sent where one is configured)"},
    {.name = "json",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, json),
     .help = "one JSON object on standard output instead of lines"},
    CONTROL_CLIENT_ROW(struct args, socket),
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo capture",
    .about =
        "Captures a step of each rank that is meant; without --job, --pid or --cores of all ranks on this host.\n"
        "\n"
        "Prints the id of each capture. With --wait the lines are ID STATE and come when a capture has ended, STATE\n"
        "being spooled, sent or failed, and what happens meanwhile goes to standard error.\n"
        "\n"
        "Exit codes: 0 begun, and with --wait all arrived; 1 a capture failed, or the daemon refused; 2 wrong usage;\n"
        "3 the wait was too short, the captures go on; 4 no daemon, or no permission; 5 no rank is meant.",
    .rows = rows,
};

struct capture {
    char id[WIRE_ID_MAX + 1], text[WIRE_TEXT_MAX + 1];
    int state;
    bool ended;
};

struct run {
    const struct args *args;
    struct capture captures[CAPTURES_MAX];
    size_t n;
    char others[WIRE_TEXT_MAX + 1]; /* why some ranks are not captured */
    bool done;
};

static const char *state_name(int state)
{
    static const char *const names[] = {"ended", "queued", "armed", "running", "saved", "spooled", "sent", "failed"};
    return state >= 0 && (size_t)state < sizeof names / sizeof names[0] ? names[state] : "?";
}

static void copy(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from ? from : "");
}

static struct capture *find(struct run *r, const char *id)
{
    for (size_t i = 0; i < r->n; i++)
        if (!strcmp(r->captures[i].id, id))
            return &r->captures[i];
    if (r->n == CAPTURES_MAX)
        return NULL;
    struct capture *c = &r->captures[r->n++];
    copy(c->id, sizeof c->id, id);
    return c;
}

static void print_progress(const struct run *r, const struct capture *c, bool first)
{
    FILE *out = c->ended || !r->args->wait_s ? stdout : stderr;
    if (r->args->json || (!r->args->wait_s && !first))
        return;
    kymo_plain_print(out, c->id);
    if (r->args->wait_s)
        (void)fprintf(out, " %s%s", state_name(c->state), *c->text ? ": " : "");
    if (r->args->wait_s)
        kymo_plain_print(out, c->text);
    (void)fputc('\n', out);
    (void)fflush(out);
}

static bool is_end(const struct args *a, int state, const char *text)
{
    return state == KYMO__CONTROL__CAPTURE_PROGRESS__STATE__FAILED ||
           state == KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SENT ||
           (state == KYMO__CONTROL__CAPTURE_PROGRESS__STATE__UNKNOWN && *text) ||
           (state == KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SPOOLED && a->until == 0);
}

static void take_progress(struct run *r, const Progress *p)
{
    if (p->has_last && p->last)
        r->done = true;
    if (!p->capture_id) {
        copy(r->others, sizeof r->others, p->text);
        return;
    }
    size_t before = r->n;
    struct capture *c = find(r, p->capture_id);
    if (!c)
        return;
    c->state = (int)p->now;
    copy(c->text, sizeof c->text, p->text);
    c->ended = r->args->wait_s && is_end(r->args, c->state, c->text);
    print_progress(r, c, r->n > before);
}

static int heard(void *ctx, const struct wire_message *m, struct kymo_err *err)
{
    struct run *r = ctx;
    if (m->type == CONTROL_CAPTURE_PROGRESS)
        take_progress(r, (const Progress *)m->pb);
    else if (m->type == WIRE_REFUSAL)
        return control_client_refused((const Kymo__Wire__Refusal *)m->pb, err);
    return 0;
}

static int parse_cores(const char *text, uint32_t *cores, size_t *ret_n, struct kymo_err *err)
{
    int r = kymo_core_list(text, UINT16_MAX + 1u, cores, CONTROL_CORES_MAX, ret_n);
    if (r == -ENOBUFS)
        return kymo_err_set(err, -EINVAL, "--cores: \"%s\" names more than %d cores", text, CONTROL_CORES_MAX);
    return r < 0 ? kymo_err_set(err, r, "--cores: \"%s\" is no list such as 0,4-7", text) : 0;
}

/* What the daemon would refuse anyway, before anybody is asked. */
static int check_names(const struct args *a, uint32_t *cores, size_t *ret_n, struct kymo_err *err)
{
    *ret_n = 0;
    if (a->job && (!*a->job || strlen(a->job) > WIRE_NAME_MAX))
        return kymo_err_set(err, -EINVAL, "--job: a name has 1 to %d bytes", WIRE_NAME_MAX);
    return a->cores ? parse_cores(a->cores, cores, ret_n, err) : 0;
}

/* To be understood as meant, or not to be sent at all. */
static int check_version(const struct args *a, uint32_t version, struct kymo_err *err)
{
    const char *unknown = a->steps         ? "steps"
                          : a->duration_ms ? "duration"
                          : a->one_in      ? "one-in"
                          : a->until >= 0  ? "until"
                                           : NULL;
    if (version >= 2 || !unknown)
        return 0;
    return kymo_err_set(err, -EPROTONOSUPPORT, "this kymod is older and does not know --%s", unknown);
}

static int ask(struct control_client *client, const struct args *a, uint32_t *cores, size_t ncores,
               struct kymo_err *err)
{
    static const char *const modes[] = {"continuous", "model", "session"};
    char job[WIRE_NAME_MAX + 1], mode[16];
    Request q = KYMO__CONTROL__CAPTURE_REQUEST__INIT;
    int r = check_version(a, control_client_version(client), err);
    if (r < 0)
        return r;
    copy(job, sizeof job, a->job);
    copy(mode, sizeof mode, a->mode >= 0 ? modes[a->mode] : NULL);
    q.has_request_id = 1;
    q.request_id = 1;
    q.job = a->job ? job : NULL;
    q.mode = a->mode >= 0 ? mode : NULL;
    q.n_cores = ncores;
    q.cores = ncores ? cores : NULL;
    q.has_pid = a->pid > 0;
    q.pid = (uint32_t)a->pid;
    q.has_step = a->step > 0;
    q.step = a->step;
    q.has_wait_ms = a->wait_s > 0;
    q.wait_ms = a->wait_s * 1000;
    q.has_count = a->steps > 0;
    q.count = (uint32_t)a->steps;
    q.has_duration_ms = a->duration_ms > 0;
    q.duration_ms = a->duration_ms;
    q.has_ranks_one_in = a->one_in > 0;
    q.ranks_one_in = (uint32_t)a->one_in;
    q.has_until = a->until >= 0;
    q.until =
        a->until == 0 ? KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SPOOLED : KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SENT;
    return control_client_send(client, CONTROL_CAPTURE_REQUEST, &q.base, err);
}

static void print_json(const struct run *r, const struct kymo_err *err)
{
    struct tree t;
    tree_start(&t, stdout, true);
    tree_list(&t, "captures");
    for (size_t i = 0; i < r->n; i++) {
        tree_row(&t, NULL);
        tree_text(&t, "id", r->captures[i].id);
        tree_text(&t, "state", state_name(r->captures[i].state));
        if (*r->captures[i].text)
            tree_text(&t, "text", r->captures[i].text);
        tree_close(&t);
    }
    tree_close(&t);
    if (*r->others)
        tree_text(&t, "not_captured", r->others);
    if (err->code)
        tree_text(&t, "error", err->text);
    tree_finish(&t);
}

/* With --wait every capture must have come to its good end. */
static int judge(struct run *r, struct kymo_err *err)
{
    size_t failed = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct capture *c = &r->captures[i];
        bool good = c->state == KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SENT ||
                    c->state == KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SPOOLED;
        /* The last word is about all: what was not named as ended ended in its last state. */
        if (!c->ended && r->args->wait_s) {
            c->ended = true;
            print_progress(r, c, false);
        }
        failed += r->args->wait_s && !good;
    }
    if (failed)
        return kymo_err_set(err, -EIO, "%zu of %zu captures failed", failed, r->n);
    return 0;
}

static void complain(const char *what, const char *text)
{
    (void)fprintf(stderr, "kymo capture: %s", what);
    kymo_plain_print(stderr, text);
    (void)fputc('\n', stderr);
}

static int capture(struct run *run, uint32_t *cores, size_t ncores)
{
    struct control_client *client = NULL;
    struct kymo_err err = {0};
    int r = control_client_open(run->args->socket, heard, run, &client, &err);
    if (r < 0) {
        complain("", err.text);
        return CONTROL_EXIT_NO_DAEMON;
    }
    r = ask(client, run->args, cores, ncores, &err);
    if (r == 0)
        r = control_client_wait(client, &run->done, run->args->wait_s * 1000 + ANSWER_MS, &err);
    control_client_close(client);
    if (r == 0)
        r = judge(run, &err);
    if (run->args->json)
        print_json(run, &err);
    if (*run->others)
        complain("not captured: ", run->others);
    if (r < 0)
        complain("", err.text);
    return control_client_exit(r);
}

int kymo_capture_main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    uint32_t cores[CONTROL_CORES_MAX];
    size_t ncores;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (check_names(&args, cores, &ncores, &err) < 0) {
        complain("", err.text);
        return 2;
    }
    struct run *run KYMO_FREE = KYMO_NEW(struct run);
    if (!run) {
        complain("", "out of memory");
        return 1;
    }
    run->args = &args;
    return capture(run, cores, ncores);
}
