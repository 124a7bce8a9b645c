#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "daemon/bus_internal.h"

#define DRIVER "org.freedesktop.DBus"
#define DRIVER_PATH "/org/freedesktop/DBus"
#define GROUPS_MAX 65536

typedef int (*handler)(struct bus *b, sd_bus_message *m, sd_bus_error *error);

/* ---- status ---- */

static int put_u64(sd_bus_message *m, const char *key, uint64_t value)
{
    return sd_bus_message_append(m, "{sv}", key, "t", value);
}

static int put_u32(sd_bus_message *m, const char *key, uint32_t value)
{
    return sd_bus_message_append(m, "{sv}", key, "u", value);
}

static int put_text(sd_bus_message *m, const char *key, const char *value)
{
    return sd_bus_message_append(m, "{sv}", key, "s", value ? value : "");
}

static int put_cores(sd_bus_message *m, const struct jobs_rank *rank)
{
    int r = sd_bus_message_open_container(m, 'e', "sv");
    if (r >= 0)
        r = sd_bus_message_append(m, "s", "cores");
    if (r >= 0)
        r = sd_bus_message_open_container(m, 'v', "au");
    if (r >= 0)
        r = sd_bus_message_append_array(m, 'u', rank->cores, rank->ncores * sizeof *rank->cores);
    if (r >= 0)
        r = sd_bus_message_close_container(m);
    return r < 0 ? r : sd_bus_message_close_container(m);
}

static int put_rank(void *ctx, const struct jobs_rank *rank)
{
    sd_bus_message *m = ctx;
    const struct {
        const char *key, *value;
    } texts[] = {{"job", rank->job},   {"state", rank->state}, {"reason", rank->reason},  {"mode", rank->mode},
                 {"unit", rank->unit}, {"slice", rank->slice}, {"program", rank->program}};
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"step", rank->step},
                   {"executions", rank->executions},
                   {"failures", rank->failures},
                   {"captures", rank->captures},
                   {"stall_ns", rank->stall_ns},
                   {"latency_p50_ns", rank->latency_p50_ns},
                   {"latency_p99_ns", rank->latency_p99_ns}};
    int r = sd_bus_message_open_container(m, 'a', "{sv}");
    if (r >= 0)
        r = put_u32(m, "pid", rank->pid);
    if (r >= 0)
        r = put_u32(m, "uid", rank->uid);
    if (r >= 0 && rank->rank_known)
        r = put_u32(m, "rank", rank->rank);
    for (size_t i = 0; r >= 0 && i < sizeof texts / sizeof *texts; i++)
        r = put_text(m, texts[i].key, texts[i].value);
    for (size_t i = 0; r >= 0 && i < sizeof numbers / sizeof *numbers; i++)
        r = put_u64(m, numbers[i].key, numbers[i].value);
    if (r >= 0)
        r = sd_bus_message_append(m, "{sv}", "capturing", "b", rank->capturing);
    if (r >= 0)
        r = put_cores(m, rank);
    if (r >= 0)
        r = sd_bus_message_close_container(m);
    return r < 0 ? r : 0;
}

static int put_collector(sd_bus_message *m, const struct outbox_link_status *l)
{
    static const char *const states[] = {[OUTBOX_LINK_OFF] = "off",
                                         [OUTBOX_LINK_CONNECTING] = "connecting",
                                         [OUTBOX_LINK_UP] = "up",
                                         [OUTBOX_LINK_WAITING] = "waiting"};
    int r = sd_bus_message_open_container(m, 'a', "{sv}");
    if (r >= 0)
        r = put_text(m, "address", l->address);
    if (r >= 0)
        r = put_text(m, "state", states[l->state]);
    if (r >= 0)
        r = put_text(m, "reason", l->reason);
    if (r >= 0)
        r = put_u64(m, "sent_bytes", l->sent_bytes);
    return r < 0 ? r : sd_bus_message_close_container(m);
}

static int put_ranks(sd_bus_message *m, struct bus *b)
{
    return jobs_each(b->config.jobs, put_rank, m);
}

static int put_collectors(sd_bus_message *m, struct bus *b)
{
    struct outbox_status s;
    int r = 0;
    outbox_get_status(b->config.outbox, &s);
    for (size_t i = 0; r >= 0 && i < s.nlinks; i++)
        r = put_collector(m, &s.links[i]);
    return r;
}

/* A member of the answer that is a list of such dictionaries. */
static int put_list(sd_bus_message *m, const char *key, struct bus *b, int (*put)(sd_bus_message *, struct bus *))
{
    int r = sd_bus_message_open_container(m, 'e', "sv");
    if (r >= 0)
        r = sd_bus_message_append(m, "s", key);
    if (r >= 0)
        r = sd_bus_message_open_container(m, 'v', "aa{sv}");
    if (r >= 0)
        r = sd_bus_message_open_container(m, 'a', "a{sv}");
    if (r >= 0)
        r = put(m, b);
    for (int i = 0; r >= 0 && i < 3; i++)
        r = sd_bus_message_close_container(m);
    return r;
}

static int put_totals(sd_bus_message *m, struct bus *b)
{
    struct captures_counts c;
    struct outbox_status s;
    captures_get_counts(b->config.captures, &c);
    outbox_get_status(b->config.outbox, &s);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"uptime_ms", uv_now(b->config.loop) - b->started_ms},
        {"captures", c.saved},
        {"captures_failed", c.failed},
        {"captures_sent", c.sent},
        {"captures_under_way", c.under_way},
        {"spool_bytes", s.spool.used_bytes},
        {"spool_max_bytes", s.spool_bytes_max},
        {"lag_bytes", s.lag_bytes},
    };
    int r = put_text(m, "version", KYMO_VERSION);
    for (size_t i = 0; r >= 0 && i < sizeof numbers / sizeof *numbers; i++)
        r = put_u64(m, numbers[i].key, numbers[i].value);
    return r < 0 ? r : put_text(m, "spool_trouble", s.trouble);
}

static int handle_status(struct bus *b, sd_bus_message *m, sd_bus_error *error)
{
    (void)error;
    sd_bus_message *reply KYMO_CLEANUP(sd_bus_message_unrefp) = NULL;
    int r = sd_bus_message_new_method_return(m, &reply);
    if (r >= 0)
        r = sd_bus_message_open_container(reply, 'a', "{sv}");
    if (r >= 0)
        r = put_totals(reply, b);
    if (r >= 0)
        r = put_list(reply, "ranks", b, put_ranks);
    if (r >= 0)
        r = put_list(reply, "collectors", b, put_collectors);
    if (r >= 0)
        r = sd_bus_message_close_container(reply);
    return r < 0 ? r : sd_bus_send(b->bus, reply, NULL);
}

/* ---- capture ---- */

struct options {
    struct captures_wish wish;
    uint32_t until_sent; /* sd-bus writes an int */
};

static int read_cores(sd_bus_message *m, struct captures_wish *w)
{
    const void *cores;
    size_t bytes;
    int r = sd_bus_message_enter_container(m, 'v', "au");
    if (r >= 0)
        r = sd_bus_message_read_array(m, 'u', &cores, &bytes);
    if (r < 0)
        return r;
    if (bytes == 0 || bytes / sizeof *w->cores > CAPTURES_CORES_MAX)
        return -EINVAL;
    w->cores = cores;
    w->ncores = bytes / sizeof *w->cores;
    return sd_bus_message_exit_container(m);
}

/* One option by its name; -ENOENT: there is none of that name. */
static int read_option(sd_bus_message *m, const char *key, struct options *o)
{
    struct captures_wish *w = &o->wish;
    const struct {
        const char *key, *type;
        void *value;
    } known[] = {{"job", "s", (void *)&w->job},
                 {"mode", "s", (void *)&w->mode},
                 {"pid", "u", &w->pid},
                 {"count", "u", &w->count},
                 {"ranks_one_in", "u", &w->ranks_one_in},
                 {"step", "t", &w->step},
                 {"duration_ms", "t", &w->duration_ms},
                 {"until_sent", "b", &o->until_sent}};
    if (strcmp(key, "cores") == 0)
        return read_cores(m, w);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i].key) == 0)
            return sd_bus_message_read(m, "v", known[i].type, known[i].value);
    return -ENOENT;
}

static int read_options(sd_bus_message *m, struct options *o, sd_bus_error *error)
{
    const char *key = "options";
    int r = sd_bus_message_enter_container(m, 'a', "{sv}");
    while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
        r = sd_bus_message_read(m, "s", &key);
        if (r >= 0)
            r = read_option(m, key, o);
        if (r >= 0)
            r = sd_bus_message_exit_container(m);
    }
    if (r >= 0)
        return 0;
    if (r == -ENOENT)
        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "there is no option \"%.64s\"", key);
    return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "%.64s: not of the type that it has, or out of bounds",
                             key);
}

static void on_capture(void *ctx, const char *capture_id, enum captures_state now, const char *text, bool last)
{
    struct bus_ask *a = ctx;
    sd_bus_message *m KYMO_CLEANUP(sd_bus_message_unrefp) = NULL;
    bool done = now == CAPTURES_FAILED || now == (a->until_sent ? CAPTURES_SENT : CAPTURES_SPOOLED);
    /* To the one who asked: names of captures tell of jobs, and the signal's other readers are not known. */
    if (done && a->bus->bus && sd_bus_message_new_signal(a->bus->bus, &m, BUS_PATH, BUS_NAME, "CaptureDone") >= 0 &&
        sd_bus_message_set_destination(m, a->sender) >= 0 &&
        sd_bus_message_append(m, "sss", capture_id, captures_state_name(now), text ? text : "") >= 0)
        (void)sd_bus_send(a->bus->bus, m, NULL);
    if (last)
        a->used = false;
}

static int set_error(sd_bus_error *error, const struct kymo_err *why, int code)
{
    static const struct {
        int code;
        const char *name;
    } names[] = {{-ENOENT, BUS_NAME ".Error.NoSuchRank"},
                 {-EBUSY, BUS_NAME ".Error.Busy"},
                 {-EPERM, BUS_NAME ".Error.Off"},
                 {-EINVAL, SD_BUS_ERROR_INVALID_ARGS},
                 {-ENOMEM, SD_BUS_ERROR_NO_MEMORY}};
    const char *name = SD_BUS_ERROR_FAILED;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code)
            name = names[i].name;
    return sd_bus_error_setf(error, name, "%s", why->text);
}

static int reply_ids(struct bus *b, sd_bus_message *m, char ids[][KYMO_HOOK_ID_MAX], size_t n, const char *note)
{
    sd_bus_message *reply KYMO_CLEANUP(sd_bus_message_unrefp) = NULL;
    int r = sd_bus_message_new_method_return(m, &reply);
    if (r >= 0)
        r = sd_bus_message_open_container(reply, 'a', "s");
    for (size_t i = 0; r >= 0 && i < n; i++)
        r = sd_bus_message_append(reply, "s", ids[i]);
    if (r >= 0)
        r = sd_bus_message_close_container(reply);
    if (r >= 0)
        r = sd_bus_message_append(reply, "s", note);
    return r < 0 ? r : sd_bus_send(b->bus, reply, NULL);
}

static struct bus_ask *find_ask(struct bus *b)
{
    for (size_t i = 0; i < BUS_ASKS_MAX; i++)
        if (!b->asks[i].used)
            return &b->asks[i];
    return NULL;
}

static int handle_capture(struct bus *b, sd_bus_message *m, sd_bus_error *error)
{
    char ids[CAPTURES_IDS_MAX][KYMO_HOOK_ID_MAX];
    struct options o = {.wish = {.trigger = "on-demand"}};
    struct kymo_err err = {0};
    size_t n = 0;
    struct bus_ask *a = find_ask(b);
    int r = read_options(m, &o, error);
    if (r < 0)
        return r;
    const char *sender = sd_bus_message_get_sender(m);
    if (!a || !sender || strlen(sender) >= sizeof a->sender)
        return sd_bus_error_setf(error, SD_BUS_ERROR_LIMITS_EXCEEDED, "%d callers wait for captures already",
                                 BUS_ASKS_MAX);
    o.wish.wait = o.until_sent != 0;
    *a = (struct bus_ask){.bus = b, .used = true, .until_sent = o.wish.wait};
    memcpy(a->sender, sender, strlen(sender) + 1);
    r = captures_ask(b->config.captures, &o.wish, on_capture, a, ids, &n, &a->ask, &err);
    if (r < 0) {
        a->used = false;
        return set_error(error, &err, r);
    }
    return reply_ids(b, m, ids, n, err.text);
}

/* ---- who may ---- */

static int read_groups(sd_bus_message *m, const struct bus *b, bool *ret)
{
    uint32_t gid;
    int r = sd_bus_message_enter_container(m, 'v', "au");
    if (r >= 0)
        r = sd_bus_message_enter_container(m, 'a', "u");
    for (size_t i = 0; r >= 0 && i < GROUPS_MAX; i++) {
        r = sd_bus_message_read(m, "u", &gid);
        if (r <= 0)
            break;
        *ret = *ret || (b->has_group && gid == b->group);
    }
    if (r >= 0)
        r = sd_bus_message_exit_container(m);
    return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* The bus daemon knows them from the sender's socket. What it does not tell counts for nothing. */
static bool may(const struct bus *b, sd_bus_message *credentials)
{
    bool allowed = false;
    const char *key;
    uint32_t uid;
    if (sd_bus_message_is_method_error(credentials, NULL))
        return false;
    int r = sd_bus_message_enter_container(credentials, 'a', "{sv}");
    while (r >= 0 && (r = sd_bus_message_enter_container(credentials, 'e', "sv")) > 0) {
        r = sd_bus_message_read(credentials, "s", &key);
        if (r < 0)
            break;
        if (strcmp(key, "UnixUserID") == 0) {
            r = sd_bus_message_read(credentials, "v", "u", &uid);
            allowed = allowed || (r >= 0 && (uid == 0 || uid == geteuid()));
        } else if (strcmp(key, "UnixGroupIDs") == 0) {
            r = read_groups(credentials, b, &allowed);
        } else {
            r = sd_bus_message_skip(credentials, "v");
        }
        if (r >= 0)
            r = sd_bus_message_exit_container(credentials);
    }
    return r >= 0 && allowed;
}

static void end_request(struct bus_request *q)
{
    q->slot = sd_bus_slot_unref(q->slot);
    q->message = sd_bus_message_unref(q->message);
    q->bus = NULL;
}

static int on_credentials(sd_bus_message *credentials, void *ctx, sd_bus_error *unused)
{
    (void)unused;
    struct bus_request *q = ctx;
    sd_bus_message *m KYMO_CLEANUP(sd_bus_message_unrefp) = sd_bus_message_ref(q->message);
    sd_bus_error error KYMO_CLEANUP(sd_bus_error_free) = SD_BUS_ERROR_NULL;
    struct bus *b = q->bus;
    int r;
    end_request(q);
    if (!may(b, credentials))
        r = sd_bus_error_setf(&error, SD_BUS_ERROR_ACCESS_DENIED, "only root%s%s may",
                              b->has_group ? " and members of the group " : "", b->has_group ? b->config.group : "");
    else if (sd_bus_message_is_method_call(m, BUS_NAME, "Status"))
        r = handle_status(b, m, &error);
    else
        r = handle_capture(b, m, &error);
    if (r < 0)
        (void)sd_bus_reply_method_errno(m, r, &error);
    return 0;
}

/* Every method begins with the question who calls. */
static int on_call(sd_bus_message *m, void *ctx, sd_bus_error *error)
{
    struct bus *b = ctx;
    struct bus_request *q = NULL;
    const char *sender = sd_bus_message_get_sender(m);
    for (size_t i = 0; i < BUS_REQUESTS_MAX && !q; i++)
        if (!b->requests[i].message)
            q = &b->requests[i];
    if (!q || !sender)
        return sd_bus_error_setf(error, SD_BUS_ERROR_LIMITS_EXCEEDED, "%d calls wait already", BUS_REQUESTS_MAX);
    *q = (struct bus_request){.bus = b, .message = sd_bus_message_ref(m)};
    int r = sd_bus_call_method_async(b->bus, &q->slot, DRIVER, DRIVER_PATH, DRIVER, "GetConnectionCredentials",
                                     on_credentials, q, "s", sender);
    if (r < 0) {
        end_request(q);
        return r;
    }
    return 1;
}

/* ---- the table ---- */

static int get_version(sd_bus *bus, const char *path, const char *interface, const char *name, sd_bus_message *reply,
                       void *ctx, sd_bus_error *error)
{
    (void)bus, (void)path, (void)interface, (void)name, (void)ctx, (void)error;
    return sd_bus_message_append(reply, "s", KYMO_VERSION);
}

static int get_captures(sd_bus *bus, const char *path, const char *interface, const char *name, sd_bus_message *reply,
                        void *ctx, sd_bus_error *error)
{
    (void)bus, (void)path, (void)interface, (void)name, (void)error;
    const struct bus *b = ctx;
    struct captures_counts c;
    captures_get_counts(b->config.captures, &c);
    return sd_bus_message_append(reply, "t", c.saved);
}

static int get_spool_bytes(sd_bus *bus, const char *path, const char *interface, const char *name,
                           sd_bus_message *reply, void *ctx, sd_bus_error *error)
{
    (void)bus, (void)path, (void)interface, (void)name, (void)error;
    const struct bus *b = ctx;
    struct outbox_status s;
    outbox_get_status(b->config.outbox, &s);
    return sd_bus_message_append(reply, "t", s.spool.used_bytes);
}

static const sd_bus_vtable vtable[] = {
    SD_BUS_VTABLE_START(0),
    SD_BUS_METHOD_WITH_ARGS("Status", SD_BUS_NO_ARGS, SD_BUS_RESULT("a{sv}", status), on_call,
                            SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD_WITH_ARGS("Capture", SD_BUS_ARGS("a{sv}", options), SD_BUS_RESULT("as", ids, "s", note), on_call,
                            SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_PROPERTY("Version", "s", get_version, 0, SD_BUS_VTABLE_PROPERTY_CONST),
    SD_BUS_PROPERTY("Captures", "t", get_captures, 0, 0),
    SD_BUS_PROPERTY("SpoolBytes", "t", get_spool_bytes, 0, 0),
    SD_BUS_SIGNAL_WITH_ARGS("CaptureDone", SD_BUS_ARGS("s", id, "s", state, "s", text), 0),
    SD_BUS_VTABLE_END,
};

int bus_api_add(struct bus *b)
{
    return sd_bus_add_object_vtable(b->bus, NULL, BUS_PATH, BUS_NAME, vtable, b);
}

void bus_api_drop(struct bus *b)
{
    for (size_t i = 0; i < BUS_REQUESTS_MAX; i++)
        if (b->requests[i].message)
            end_request(&b->requests[i]);
    for (size_t i = 0; i < BUS_ASKS_MAX; i++)
        if (b->asks[i].used) {
            captures_unwatch(b->config.captures, b->asks[i].ask);
            b->asks[i].used = false;
        }
}
