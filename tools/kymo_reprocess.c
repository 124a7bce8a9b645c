/* kymo reprocess NAME...: makes profiles of a store again, from the captures that it keeps; itself, or by its
 * collector. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "tools/collector_client.h"
#include "tools/profile_line.h"
#include "tools/store_work.h"
#include "tools/subcommands.h"

#define NAMES_MAX 1000000
#define POLL_MS 300

struct args {
    struct store_work work;
    struct collector_options collector;
    const char *capture;
    bool failed, no_wait;
    struct kymo_option_list names;
};

static const struct kymo_option rows[] = {
    STORE_OR_COLLECTOR_ROWS(struct args, work.data_path, collector),
    STORE_LIMIT_ROWS(struct args, work),
    {.name = "capture",
     .type = KYMO_OPTION_TEXT,
     .arg = "ID",
     .offset = offsetof(struct args, capture),
     .help = "all profiles of this capture"},
    {.name = "failed",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, failed),
     .help = "all profiles that have failed"},
    {.name = "no-wait",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, no_wait),
     .help = "with --collector: do not wait until they are made"},
    {.name = "NAME",
     .type = KYMO_OPTION_POSITIONALS,
     .offset = offsetof(struct args, names),
     .help = "profiles, as kymo profiles lists them"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo reprocess",
    .about =
        "Makes profiles again from the stored captures. What is there stays until it is exchanged for the new one.\n"
        "Limits and processors are a collector's own where --collector is given.\n"
        "Exit code: 0 all are ready, 1 not all of them, 2 wrong usage.",
    .rows = rows,
};

/* The profiles that are meant. */
struct names {
    char **items;
    size_t n, cap;
};

static void names_done(struct names *all)
{
    for (size_t i = 0; i < all->n; i++)
        kymo_free(all->items[i]);
    kymo_free(all->items);
}

static int names_add(struct names *all, const char *name, struct kymo_err *err)
{
    void *p = all->items;
    char *copy = kymo_strdup(name);
    int r = copy ? kymo_grow(&p, &all->cap, all->n + 1, NAMES_MAX, sizeof *all->items) : -ENOMEM;
    all->items = p;
    if (r < 0) {
        kymo_free(copy);
        return kymo_err_set(err, r, "no memory for a list of profiles");
    }
    all->items[all->n++] = copy;
    return 0;
}

static int names_given(struct names *all, const struct args *a, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < a->names.n; i++)
        r = names_add(all, a->names.items[i], err);
    return r;
}

struct choice {
    const struct args *args;
    struct names *names;
    struct kymo_err *err;
};

static int choose(void *ctx, const struct catalog_profile *p)
{
    struct choice *c = ctx;
    if (c->args->failed && p->state != CATALOG_FAILED)
        return 0;
    return names_add(c->names, p->name, c->err);
}

static int find_in_store(struct store *s, const struct args *a, struct names *names, struct kymo_err *err)
{
    struct choice choice = {a, names, err};
    int r = names_given(names, a, err);
    if (r == 0 && (a->capture || a->failed))
        r = catalog_list(s->catalog, a->capture, choose, &choice, err);
    return r;
}

static int queue_in_store(struct store *s, const struct names *names, struct kymo_err *err)
{
    struct catalog_profile p;
    int r = 0;
    for (size_t i = 0; r == 0 && i < names->n; i++) {
        r = catalog_find(s->catalog, names->items[i], &p, err);
        /* One that waits will be made anyway. */
        if (r == 0 && p.state != CATALOG_QUEUED)
            r = catalog_queue(s->catalog, p.name, err);
    }
    return r;
}

/* 1: not all are ready. */
static int in_store(const struct args *a, struct names *names, struct kymo_err *err)
{
    struct store *s = NULL;
    struct catalog_profile p;
    int r = store_open(a->work.data_path, a->work.reserve, &s, err);
    if (r == 0)
        r = find_in_store(s, a, names, err);
    if (r == 0)
        r = queue_in_store(s, names, err);
    if (r == 0 && store_work_run(s, &a->work, "kymo reprocess") < 0)
        r = 1;
    for (size_t i = 0; r == 0 && i < names->n; i++)
        r = catalog_find(s->catalog, names->items[i], &p, NULL) < 0 || p.state != CATALOG_READY;
    store_free(s);
    return r;
}

/* Part of a path: nothing else may come into it. */
static bool is_profile_name(const char *text)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strspn(text, characters);
    return n > 0 && text[n] == '\0' && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

static int find_in_collector(struct collector_client *c, const struct args *a, struct names *names,
                             struct kymo_err *err)
{
    json_t *list = NULL;
    char *query KYMO_FREE = kymo_asprintf("limit=1000&sort=received%s%s%s", a->failed ? "&state=failed" : "",
                                          a->capture ? "&capture=" : "", a->capture ? a->capture : "");
    int r = query ? names_given(names, a, err) : kymo_err_set(err, -ENOMEM, "no memory for a request");
    for (size_t i = 0; r == 0 && i < names->n; i++)
        if (!is_profile_name(names->items[i]))
            r = kymo_err_set(err, -ENOENT, "there is no profile %.200s", names->items[i]);
    if (r < 0 || (!a->capture && !a->failed))
        return r;
    r = collector_client_list(c, "/api/v1/profiles", "profiles", query, &list, err);
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
        r = names_add(names, profile_line_text(json_array_get(list, i), "name"), err);
    json_decref(list);
    return r;
}

static int look(struct collector_client *c, const char *name, json_t **ret, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_asprintf("/api/v1/profiles/%s", name);
    return path ? collector_client_get(c, path, ret, err) : kymo_err_set(err, -ENOMEM, "no memory for a request");
}

static bool waits(const json_t *profile)
{
    const char *state = profile_line_text(profile, "state");
    return !strcmp(state, "queued") || !strcmp(state, "processing");
}

static int queue_one(struct collector_client *c, const char *name, struct kymo_err *err)
{
    json_t *answer = NULL;
    char *path KYMO_FREE = kymo_asprintf("/api/v1/profiles/%s/reprocess", name);
    int r = path ? collector_client_post(c, path, NULL, &answer, err) : kymo_err_set(err, -ENOMEM, "no memory");
    json_decref(answer);
    /* One that waited, or was at work, is made anyway. */
    return r == -EALREADY ? 0 : r;
}

/* Waits until one is made, and says so. 1: it has failed. */
static int await(struct collector_client *c, const char *name, struct kymo_err *err)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000};
    for (;;) {
        json_t *profile = NULL;
        int r = look(c, name, &profile, err);
        if (r == 0 && waits(profile)) {
            json_decref(profile);
            (void)nanosleep(&pause, NULL);
            continue;
        }
        if (r == 0) {
            profile_line_print(profile);
            r = strcmp(profile_line_text(profile, "state"), "ready") != 0;
        }
        json_decref(profile);
        return r;
    }
}

static int by_collector(const struct args *a, struct names *names, struct kymo_err *err)
{
    struct collector_client *c = NULL;
    int failed = 0;
    int r = collector_client_new(&a->collector, &c, err);
    if (r == 0)
        r = find_in_collector(c, a, names, err);
    for (size_t i = 0; r == 0 && i < names->n; i++)
        r = queue_one(c, names->items[i], err);
    for (size_t i = 0; r >= 0 && !a->no_wait && i < names->n; i++) {
        r = await(c, names->items[i], err);
        failed |= r == 1;
    }
    collector_client_free(c);
    return r < 0 ? r : failed;
}

static bool is_usage(const struct args *a)
{
    const char *wrong = NULL;
    if (!a->work.data_path == !a->collector.url)
        wrong = "either --data-path or --collector is needed";
    else if (!a->names.n && !a->capture && !a->failed)
        wrong = "names of profiles, --capture or --failed are needed";
    else if (a->capture && !manifest_is_id(a->capture))
        wrong = "--capture: this is no capture's id";
    if (wrong)
        (void)fprintf(stderr, "kymo reprocess: %s; see --help\n", wrong);
    return !wrong;
}

int kymo_reprocess_main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    struct names names = {0};
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (!is_usage(&args))
        return 2;
    int r = args.collector.url ? by_collector(&args, &names, &err) : in_store(&args, &names, &err);
    if (r < 0)
        (void)fprintf(stderr, "kymo reprocess: %s%s\n", err.text,
                      r == -EBUSY && !args.collector.url ? "; if that is its collector, ask it with --collector URL"
                                                         : "");
    names_done(&names);
    return r != 0;
}
