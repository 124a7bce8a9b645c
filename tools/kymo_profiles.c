/* kymo profiles: what a store holds, from its catalogue beside whoever is working on it, or from its collector. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/plain.h"
#include "collector/catalog.h"
#include "collector/profile_json.h"
#include "tools/collector_client.h"
#include "tools/profile_line.h"
#include "tools/store_work.h"
#include "tools/subcommands.h"

struct args {
    const char *data_path;
    struct collector_options collector;
    bool json;
};

static const struct kymo_option rows[] = {
    STORE_OR_COLLECTOR_ROWS(struct args, data_path, collector),
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

static void print_receiving(const json_t *c)
{
    const char *reason = json_string_value(json_object_get(c, "reason"));
    if (strcmp(profile_line_text(c, "state"), "receiving") != 0)
        return;
    printf("capture ");
    kymo_plain_print(stdout, profile_line_text(c, "id"));
    printf(" receiving%s", reason ? ": " : "");
    kymo_plain_print(stdout, reason ? reason : "");
    (void)putchar('\n');
}

/* What is to be kept for one JSON object, or NULL: each row is printed as it comes. */
struct listing {
    const char *data_path;
    json_t *profiles, *captures;
};

static int keep(json_t *list, json_t *row, void (*print)(const json_t *row))
{
    if (!row)
        return -ENOMEM;
    if (list)
        return json_array_append_new(list, row) < 0 ? -ENOMEM : 0;
    print(row);
    json_decref(row);
    return 0;
}

static int add_profile(void *ctx, const struct catalog_profile *p)
{
    struct listing *l = ctx;
    return keep(l->profiles, profile_json(l->data_path, p), profile_line_print);
}

static int add_capture(void *ctx, const struct catalog_capture *c)
{
    struct listing *l = ctx;
    return keep(l->captures, capture_json(c), print_receiving);
}

static int list_store(struct listing *l, struct kymo_err *err)
{
    struct catalog *c = NULL;
    char *path KYMO_FREE = kymo_asprintf("%s/catalog.db", l->data_path);
    int r = path ? catalog_open(path, true, &c, err) : -ENOMEM;
    if (r == 0)
        r = catalog_list(c, NULL, add_profile, l, err);
    if (r == 0)
        r = catalog_list_captures(c, add_capture, l, err);
    catalog_free(c);
    return r;
}

static int take_all(json_t *from, json_t *into, void (*print)(const json_t *row))
{
    if (into)
        return json_array_extend(into, from);
    for (size_t i = 0; i < json_array_size(from); i++)
        print(json_array_get(from, i));
    return 0;
}

static int list_collector(const struct collector_options *o, struct listing *l, struct kymo_err *err)
{
    struct collector_client *c = NULL;
    json_t *profiles = NULL, *captures = NULL;
    int r = collector_client_new(o, &c, err);
    if (r == 0)
        r = collector_client_list(c, "/api/v1/profiles", "profiles", "sort=received&limit=1000", &profiles, err);
    if (r == 0)
        r = collector_client_list(c, "/api/v1/captures", "captures",
                                  l->captures ? "sort=received&limit=1000" : "state=receiving&sort=received&limit=1000",
                                  &captures, err);
    if (r == 0 && (take_all(profiles, l->profiles, profile_line_print) < 0 ||
                   take_all(captures, l->captures, print_receiving) < 0))
        r = -ENOMEM;
    json_decref(profiles);
    json_decref(captures);
    collector_client_free(c);
    return r;
}

static int write_json(struct listing *l, struct kymo_err *err)
{
    json_t *root = json_pack("{s:O, s:O}", "profiles", l->profiles, "captures", l->captures);
    int r = root && json_dumpf(root, stdout, JSON_INDENT(2)) == 0 && puts("") >= 0
                ? 0
                : kymo_err_set(err, -EIO, "the list cannot be written");
    json_decref(root);
    return r;
}

static int list(const struct args *a, struct kymo_err *err)
{
    struct listing l = {a->data_path, a->json ? json_array() : NULL, a->json ? json_array() : NULL};
    int r = a->collector.url ? list_collector(&a->collector, &l, err) : list_store(&l, err);
    if (r == 0 && a->json)
        r = write_json(&l, err);
    if (r < 0 && err->code == 0)
        (void)kymo_err_set(err, r, "no memory for the list");
    json_decref(l.profiles);
    json_decref(l.captures);
    return r;
}

int kymo_profiles_main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (!args.data_path == !args.collector.url) {
        (void)fprintf(stderr, "kymo profiles: either --data-path or --collector is needed; see --help\n");
        return 2;
    }
    int r = list(&args, &err);
    if (r < 0)
        (void)fprintf(stderr, "kymo profiles: %s\n", err.text);
    return r < 0;
}
