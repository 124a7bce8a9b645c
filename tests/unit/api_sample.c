#include "tests/unit/api_sample.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/catalog_impl.h"

#define PENDING_MAX 64
#define NTFF KYMO__MANIFEST__FILE__KIND__NTFF

/* An answer that comes later, as those of the store's thread and of daemons do. */
struct pending {
    bool used;
    struct http_request *request;
    struct api_sample *sample;
    uv_timer_t timer;
    bool capture;
    char made[MANIFEST_PROFILE_NAME_MAX + 1]; /* the profile that is ready when the answer is given; "": none */
    uint64_t n;
    struct kymo_err err;
};

struct api_sample {
    uv_loop_t *loop;
    struct catalog *catalog;
    struct api_source source;
    struct pending pending[PENDING_MAX];
};

static int put_capture(struct catalog *c, const char *id, const char *job, const char *host, unsigned i,
                       struct kymo_err *err)
{
    Kymo__Manifest__File files[2], *list[2] = {&files[0], &files[1]};
    char names[2][32];
    Kymo__Manifest__Capture m = KYMO__MANIFEST__CAPTURE__INIT;
    Kymo__Manifest__Capture__LabelsEntry label = KYMO__MANIFEST__CAPTURE__LABELS_ENTRY__INIT, *labels[] = {&label};
    char team[32] = "team", value[32];
    char id_copy[MANIFEST_ID_MAX + 1], job_copy[MANIFEST_TEXT_MAX + 1], host_copy[MANIFEST_TEXT_MAX + 1];
    (void)snprintf(id_copy, sizeof id_copy, "%s", id);
    (void)snprintf(job_copy, sizeof job_copy, "%s", job);
    (void)snprintf(host_copy, sizeof host_copy, "%s", host);
    (void)snprintf(value, sizeof value, "colour_%u", i % 3);
    label.key = team;
    label.value = value;
    for (unsigned k = 0; k < 2; k++) {
        kymo__manifest__file__init(&files[k]);
        (void)snprintf(names[k], sizeof names[k], "%u.ntff", k);
        files[k].name = names[k];
        files[k].has_type = files[k].has_size = files[k].has_vnc = 1;
        files[k].type = NTFF;
        files[k].size = 1000 + i;
        files[k].vnc = k;
    }
    m.capture_id = id_copy;
    m.job = job_copy;
    m.host = host_copy;
    m.rank = i % 8;
    m.n_files = 2;
    m.files = list;
    m.n_labels = 1;
    m.labels = labels;
    return catalog_received(c, &m, err);
}

/* The states that a profile may have, in turn. */
static int move(struct catalog *c, const char *name, unsigned i, struct kymo_err *err)
{
    static const struct catalog_result result = {.schema_version = "7.4.0", .records = 10, .tables = 3, .bytes = 999};
    int r = i % 5 > 0 ? catalog_queue(c, name, err) : 0;
    if (r == 0 && i % 5 > 1)
        r = catalog_start(c, name, "kymo test", err);
    if (r == 0 && i % 5 == 2)
        r = catalog_progress(c, name, "decode", 5, 10, err);
    if (r == 0 && i % 5 == 3)
        r = catalog_ready(c, name, &result, err);
    if (r == 0 && i % 5 == 4)
        r = catalog_fail(c, name, "record 7 is of no known kind", 4096, err);
    return r;
}

struct names {
    char (*names)[MANIFEST_PROFILE_NAME_MAX + 1];
    unsigned n, max;
};

static int note(void *ctx, const struct catalog_profile *p)
{
    struct names *all = ctx;
    if (all->n < all->max)
        memcpy(all->names[all->n++], p->name, sizeof p->name);
    return 0;
}

static int move_all(struct catalog *c, unsigned n, struct kymo_err *err)
{
    void *memory KYMO_FREE = kymo_calloc(2 * n + 4, MANIFEST_PROFILE_NAME_MAX + 1);
    struct names all = {.names = memory, .max = 2 * n + 4};
    int r = memory ? catalog_list(c, NULL, note, &all, err) : -ENOMEM;
    for (unsigned i = 0; r == 0 && i < all.n; i++)
        r = move(c, all.names[i], i, err);
    return r;
}

static int fill(struct catalog *c, unsigned n, struct kymo_err *err)
{
    Kymo__Manifest__Capture m = KYMO__MANIFEST__CAPTURE__INIT;
    char id[32], host[32], receiving[] = "cap-receiving";
    int r = 0;
    for (unsigned i = 0; r == 0 && i < n; i++) {
        (void)snprintf(id, sizeof id, "cap-%05u", i);
        (void)snprintf(host, sizeof host, "host-%u", i % 10);
        r = put_capture(c, id, i % 2 ? "eval" : "train", host, i, err);
    }
    if (r == 0 && n > 0)
        r = put_capture(c, "cap-hostile", "<script>\"\x01\xff\xc3(</script>", "h\xe2\x82%_\\", 5, err);
    if (r == 0 && n > 0)
        r = move_all(c, n, err);
    m.capture_id = receiving;
    return r < 0 || n == 0 ? r : catalog_receiving(c, &m, "host-0", "no room on the disk", err);
}

static void figures(void *ctx, struct api_figures *ret)
{
    (void)ctx;
    *ret = (struct api_figures){
        .started_ns = 1700000000000000000,
        .hosts = 2,
        .hosts_accepted = 5,
        .captures_stored = 40,
        .captures_known = 3,
        .captures_open = 1,
        .bytes_received = (uint64_t)1 << 40,
        .bytes_waiting = 4096,
        .n_refused = 2,
        .refused = {{"bad hash", 4}, {"no \"space\"\\\n", 1}},
        .profiles_ready = 7,
        .profiles_failed = 2,
        .processing_ns = 1500000000,
        .disk_free = 1000,
        .disk_total = 5000,
        .trouble = "catalog.db: disk full",
    };
}

static void hosts(void *ctx, void (*each)(void *each_ctx, const struct api_host *host), void *each_ctx)
{
    static const struct api_host rows[] = {
        {"host-0", "127.0.0.1:4000", "kymod 0.1.0", 1700000000000000000, 3, 12345, 1},
        {"h\xff<b>", "127.0.0.1:4001", "", 1700000000000000001, 0, 0, 0},
    };
    (void)ctx;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        each(each_ctx, &rows[i]);
}

static void on_closed(uv_handle_t *handle)
{
    struct pending *p = handle->data;
    p->used = false;
}

static void make(struct catalog *c, const char *name)
{
    static const struct catalog_result result = {.schema_version = "7.4.0", .records = 11, .tables = 4, .bytes = 1000};
    struct kymo_err err;
    if (*name && catalog_start(c, name, "kymo test", &err) == 0)
        if (catalog_ready(c, name, &result, &err) < 0)
            abort();
}

static void finish(struct pending *p)
{
    static const char *const ids[] = {"cap-new-0", "cap-new-1"};
    const struct api_capture_answer answers[] = {
        {.host = "host-0", .captures = ids, .n_captures = 2},
        {.host = "h\xff<b>", .error = "no job of this name"},
    };
    if (!p->request)
        return;
    if (p->capture)
        api_captured(p->request, answers, 2, p->err.code ? &p->err : NULL);
    else
        api_reprocessed(p->request, p->n, p->err.code ? &p->err : NULL);
    make(p->sample->catalog, p->made);
    p->request = NULL;
    uv_close((uv_handle_t *)&p->timer, on_closed);
}

static void on_timer(uv_timer_t *timer)
{
    finish(timer->data);
}

static struct pending *later(struct api_sample *s, struct http_request *request, uint64_t ms)
{
    for (size_t i = 0; i < PENDING_MAX; i++) {
        struct pending *p = &s->pending[i];
        if (p->used)
            continue;
        *p = (struct pending){.used = true, .request = request, .sample = s};
        (void)uv_timer_init(s->loop, &p->timer);
        p->timer.data = p;
        (void)uv_timer_start(&p->timer, on_timer, ms, 0);
        return p;
    }
    return NULL;
}

static uint64_t queue_failed(struct catalog *c, struct kymo_err *err)
{
    void *memory KYMO_FREE = kymo_calloc(4096, MANIFEST_PROFILE_NAME_MAX + 1);
    struct names all = {.names = memory, .max = 4096};
    uint64_t n = 0;
    if (!memory || catalog_list(c, NULL, note, &all, err) < 0)
        return 0;
    for (unsigned i = 0; i < all.n; i++) {
        struct catalog_profile p;
        if (catalog_find(c, all.names[i], &p, err) == 0 && p.state == CATALOG_FAILED)
            n += catalog_queue(c, p.name, err) == 0;
    }
    return n;
}

/* A profile named "never" is answered only when all ends; those of core 1 become ready, those of core 0 wait. */
static void reprocess(void *ctx, const struct api_reprocess *what, struct http_request *request)
{
    struct api_sample *s = ctx;
    struct kymo_err err = {.code = -EBUSY, .text = "too many requests"};
    bool never = what->profile && !strcmp(what->profile, "never");
    struct pending *p = later(s, request, never ? 1000000 : 20);
    if (!p) {
        api_reprocessed(request, 0, &err);
        return;
    }
    if (never)
        return;
    if (what->failed)
        p->n = queue_failed(s->catalog, &p->err);
    else if (what->capture)
        p->n = 2;
    else
        p->n = catalog_queue(s->catalog, what->profile, &p->err) == 0;
    if (what->profile && strstr(what->profile, "-nc1"))
        (void)snprintf(p->made, sizeof p->made, "%s", what->profile);
}

static void capture(void *ctx, const struct api_capture_request *what, struct http_request *request)
{
    struct api_sample *s = ctx;
    struct kymo_err err = {.code = -EBUSY, .text = "too many requests"};
    struct pending *p = later(s, request, 20);
    if (!p) {
        api_captured(request, NULL, 0, &err);
        return;
    }
    p->capture = true;
    if (what->host && !strcmp(what->host, "nobody"))
        (void)kymo_err_set(&p->err, -ENOENT, "host %s is not connected", what->host);
}

int api_sample_new(uv_loop_t *loop, const char *data_path, unsigned n, struct api_sample **ret, struct kymo_err *err)
{
    struct api_sample *s = KYMO_NEW(struct api_sample);
    char *path KYMO_FREE = kymo_asprintf("%s/catalog.db", data_path);
    if (!s || !path)
        return kymo_err_set(err, -ENOMEM, "no memory");
    s->loop = loop;
    s->source =
        (struct api_source){.figures = figures, .hosts = hosts, .reprocess = reprocess, .capture = capture, .ctx = s};
    int r = catalog_open(path, false, &s->catalog, err);
    /* Nobody needs these to survive. */
    if (r == 0)
        r = catalog_script(s->catalog, "PRAGMA synchronous=OFF", err);
    if (r == 0)
        r = fill(s->catalog, n, err);
    *ret = s;
    return r;
}

void api_sample_stop(struct api_sample *s)
{
    for (size_t i = 0; s && i < PENDING_MAX; i++)
        if (s->pending[i].used)
            finish(&s->pending[i]);
}

struct api_sample *api_sample_free(struct api_sample *s)
{
    if (s)
        catalog_free(s->catalog);
    kymo_free(s);
    return NULL;
}

const struct api_source *api_sample_source(const struct api_sample *s)
{
    return &s->source;
}
