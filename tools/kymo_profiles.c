/* kymo profiles: what a store holds, from its catalogue, beside whoever is working on it. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "collector/catalog.h"
#include "collector/work_queue.h"
#include "tools/store_work.h"
#include "tools/subcommands.h"

struct args {
    const char *data_path;
    bool json;
};

static const struct kymo_option rows[] = {
    STORE_DATA_PATH_ROW(struct args, data_path),
    {.name = "json",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, json),
     .help = "all that is known, as one JSON object"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo profiles",
    .about =
        "Lists the profiles of a store: received, queued, processing, ready or failed, with place, progress or reason.",
    .rows = rows,
};

static int print_profile(void *ctx, const struct catalog_profile *p)
{
    if (p->state == CATALOG_PROCESSING && *p->stage)
        printf("%s processing: %s, %llu of %llu\n", p->name, p->stage, (unsigned long long)p->done,
               (unsigned long long)p->total);
    else
        store_work_print(ctx, p);
    return 0;
}

static int print_receiving(void *ctx, const struct catalog_capture *c)
{
    (void)ctx;
    if (!strcmp(c->state, "receiving"))
        printf("capture %s receiving%s%s\n", c->id, *c->reason ? ": " : "", c->reason);
    return 0;
}

/* Names of jobs and hosts are what somebody sent. */
static json_t *text(const char *s)
{
    char clean[KYMO_ERR_TEXT_MAX];
    size_t n = 0, left = strlen(s);
    while (left && n + 4 < sizeof clean) {
        size_t len = kymo_utf8_sequence(s, left);
        if (len)
            memcpy(clean + n, s, len);
        else
            clean[n] = '?';
        n += len ? len : 1;
        s += len ? len : 1;
        left -= len ? len : 1;
    }
    return json_stringn(clean, n);
}

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static void put(json_t *object, const char *key, json_t *value, bool known)
{
    if (known)
        (void)json_object_set_new(object, key, value);
    else
        json_decref(value);
}

struct listing {
    const char *data_path;
    json_t *profiles, *captures;
};

static int add_profile(void *ctx, const struct catalog_profile *p)
{
    struct listing *l = ctx;
    json_t *o = json_object();
    char *place KYMO_FREE = work_queue_place(l->data_path, p->name);
    bool ready = p->state == CATALOG_READY, working = p->state == CATALOG_PROCESSING;
    put(o, "name", text(p->name), true);
    put(o, "state", text(catalog_state_name(p->state)), true);
    put(o, "reason", text(p->reason), *p->reason);
    put(o, "file_offset", number((uint64_t)p->file_offset), p->file_offset >= 0);
    put(o, "path", text(place ? place : ""), ready && place);
    put(o, "stage", text(p->stage), working && *p->stage);
    put(o, "done", number(p->done), working && *p->stage);
    put(o, "total", number(p->total), working && p->total);
    put(o, "capture", text(p->capture), true);
    put(o, "file", text(p->file), true);
    put(o, "file_size", number(p->file_size), true);
    put(o, "job", text(p->job), *p->job);
    put(o, "host", text(p->host), *p->host);
    put(o, "rank", number(p->rank), true);
    put(o, "vnc", number(p->vnc), true);
    put(o, "processor", text(p->processor), *p->processor);
    put(o, "schema_version", text(p->schema_version), *p->schema_version);
    put(o, "records", number(p->records), p->records > 0);
    put(o, "tables", number(p->tables), p->tables > 0);
    put(o, "bytes", number(p->bytes), p->tables > 0);
    put(o, "attempts", number(p->attempts), true);
    put(o, "received_ns", number((uint64_t)p->received_ns), true);
    put(o, "queued_ns", number((uint64_t)p->queued_ns), p->queued_ns > 0);
    put(o, "started_ns", number((uint64_t)p->started_ns), p->started_ns > 0);
    put(o, "finished_ns", number((uint64_t)p->finished_ns), p->finished_ns > 0);
    return json_array_append_new(l->profiles, o) < 0 ? -ENOMEM : 0;
}

static int add_capture(void *ctx, const struct catalog_capture *c)
{
    struct listing *l = ctx;
    json_t *o = json_object();
    put(o, "id", text(c->id), true);
    put(o, "state", text(c->state), true);
    put(o, "reason", text(c->reason), *c->reason);
    put(o, "files", number(c->files), true);
    put(o, "bytes", number(c->bytes), true);
    return json_array_append_new(l->captures, o) < 0 ? -ENOMEM : 0;
}

static int list_json(struct catalog *c, const char *data_path, struct kymo_err *err)
{
    struct listing l = {data_path, json_array(), json_array()};
    int r = catalog_list(c, NULL, add_profile, &l, err);
    if (r == 0)
        r = catalog_list_captures(c, add_capture, &l, err);
    json_t *root = json_pack("{s:o, s:o}", "profiles", l.profiles, "captures", l.captures);
    if (r == 0 && (!root || json_dumpf(root, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER) < 0))
        r = kymo_err_set(err, -EIO, "the list cannot be written");
    json_decref(root);
    if (r == 0)
        printf("\n");
    return r;
}

static int list(struct catalog *c, const struct args *a, struct kymo_err *err)
{
    if (a->json)
        return list_json(c, a->data_path, err);
    int r = catalog_list(c, NULL, print_profile, (void *)(size_t)a->data_path, err);
    return r < 0 ? r : catalog_list_captures(c, print_receiving, NULL, err);
}

int kymo_profiles_main(int argc, char **argv)
{
    struct args args;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct catalog *c = NULL;
    struct kymo_err err = {0};
    char *path KYMO_FREE = kymo_asprintf("%s/catalog.db", args.data_path);
    int r = path ? catalog_open(path, true, &c, &err) : kymo_err_set(&err, -ENOMEM, "no memory for a path");
    if (r == 0)
        r = list(c, &args, &err);
    if (r < 0)
        (void)fprintf(stderr, "kymo profiles: %s\n", err.text);
    catalog_free(c);
    return r < 0;
}
