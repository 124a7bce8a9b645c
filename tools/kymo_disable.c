/* kymo disable: takes out what kymo enable put in. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "tools/hook_dropin.h"
#include "tools/subcommands.h"
#include "tools/unit_dirs.h"
#include "tools/unit_manager.h"

#define UNITS_MAX 4096

struct args {
    struct kymo_option_list units;
    bool all, now, user, no_reload;
    const char *unit_dir;
    uint64_t timeout_s;
};

static const struct kymo_option rows[] = {
    {.name = "UNIT|SLICE",
     .type = KYMO_OPTION_POSITIONALS,
     .offset = offsetof(struct args, units),
     .help = "services, templates, or slices"},
    {.name = "all",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, all),
     .help = "every unit that has the hook"},
    {.name = "now",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, now),
     .help = "restart those that run; without it the hook goes with their next start"},
    {.name = "no-reload",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, no_reload),
     .help = "only remove the files: where no systemd runs, as in an image"},
    {.name = "unit-dir",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct args, unit_dir),
     .help = "where the drop-ins are, if kymo enable was told so"},
    UNIT_MANAGER_ROWS(struct args),
    {0}};

static const struct kymo_options spec = {
    .program = "kymo disable",
    .about =
        "Takes the hook out of services: removes the drop-ins of kymo enable, lasting and runtime ones, and the\n"
        "directories made for them, and has systemd read its files again. The unit itself need not exist any more. A\n"
        "slice means every service that was enabled through it, and every one that is in it now. Files without kymo's\n"
        "mark stay.",
    .rows = rows,
};

struct work {
    const struct args *args;
    const char *dirs[2];
    const char *slice; /* being looked at */
    struct unit_manager *manager;
    size_t n, removed;
    char (*units)[HOOK_DROPIN_UNIT_MAX + 1];
};

static void complain(const char *text)
{
    (void)fprintf(stderr, "kymo disable: %s\n", text);
}

static int add_unit(struct work *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->units[i], name) == 0)
            return 0;
    if (w->n == UNITS_MAX)
        return -E2BIG;
    (void)snprintf(w->units[w->n++], sizeof w->units[0], "%s", name);
    return 0;
}

static int on_member(void *ctx, const char *name)
{
    return add_unit(ctx, name);
}

/* slice NULL: all of them. */
static int on_dropin(void *ctx, const char *unit, const char *through)
{
    struct work *w = ctx;
    return w->slice && strcmp(w->slice, through) != 0 ? 0 : add_unit(w, unit);
}

static int add_dropins(struct work *w, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < 2; i++)
        if (w->dirs[i][0])
            r = hook_dropin_each(w->dirs[i], on_dropin, w, err);
    return r;
}

static int add_named(struct work *w, const char *name, struct kymo_err *err)
{
    char full[HOOK_DROPIN_UNIT_MAX + 1];
    int n = snprintf(full, sizeof full, "%s%s", name, strchr(name, '.') ? "" : ".service");
    bool fits = n >= 0 && (size_t)n < sizeof full;
    if (fits && hook_dropin_unit_ok(full, ".slice")) {
        w->slice = name;
        int r = add_dropins(w, err);
        if (r == 0 && w->manager)
            r = unit_manager_members(w->manager, name, on_member, w, err);
        return r;
    }
    if (!fits || !hook_dropin_unit_ok(full, ".service"))
        return kymo_err_set(err, -EINVAL, "%.80s: not the name of a service or slice", name);
    int r = add_unit(w, full);
    /* By an alias too; a unit that is gone has only its own name. */
    struct unit_manager_service s KYMO_CLEANUP(unit_manager_done) = {0};
    if (r == 0 && w->manager && unit_manager_look(w->manager, full, &s, NULL) == 0)
        r = add_unit(w, s.id);
    return r;
}

/* 1: it had the hook. */
static int remove_from(struct work *w, const char *unit, int *code)
{
    int had = 0;
    for (size_t i = 0; i < 2; i++) {
        struct kymo_err err = {0};
        if (!w->dirs[i][0] || (i > 0 && strcmp(w->dirs[0], w->dirs[i]) == 0))
            continue;
        int r = hook_dropin_remove(w->dirs[i], unit, &err);
        if (r < 0) {
            complain(err.text);
            *code = 1;
        }
        had |= r > 0;
    }
    return had;
}

static void restart(struct work *w, const char *unit, int *code)
{
    struct kymo_err err = {0};
    struct unit_manager_service s KYMO_CLEANUP(unit_manager_done) = {0};
    if (unit_manager_look(w->manager, unit, &s, NULL) < 0 || strcmp(s.active, "active") != 0)
        return;
    if (!w->args->now) {
        printf("%s: runs with the hook until it starts again\n", unit);
    } else if (unit_manager_restart(w->manager, unit, w->args->timeout_s * 1000, &err) < 0) {
        complain(err.text);
        *code = 1;
    } else {
        printf("%s: restarted\n", unit);
    }
}

static int run(struct work *w, struct kymo_err *err)
{
    int r = 0, code = 0;
    for (size_t i = 0; r == 0 && i < w->args->units.n; i++)
        r = add_named(w, w->args->units.items[i], err);
    if (r == 0 && w->args->all) {
        w->slice = NULL;
        r = add_dropins(w, err);
    }
    if (r < 0)
        return kymo_err_set(err, r, "%s", err->text[0] ? err->text : "too many services");
    size_t had = 0;
    for (size_t i = 0; i < w->n; i++)
        if (remove_from(w, w->units[i], &code)) {
            printf("%s: disabled\n", w->units[i]);
            /* The front keeps those that were changed. */
            memmove(w->units[had++], w->units[i], sizeof w->units[0]);
        }
    if (had == 0 && code == 0)
        printf("nothing to disable\n");
    if (had && w->manager)
        r = unit_manager_reload(w->manager, err);
    for (size_t i = 0; r == 0 && w->manager && i < had; i++)
        restart(w, w->units[i], &code);
    if (r == 0 && (fflush(stdout) != 0 || ferror(stdout)))
        r = kymo_err_set(err, -EIO, "cannot write the output");
    return r < 0 ? r : code;
}

int kymo_disable_main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    struct unit_dirs dirs;
    struct unit_manager *manager KYMO_CLEANUP(unit_manager_closep) = NULL;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if ((args.units.n > 0) == args.all) {
        complain("name units or slices, or --all");
        return 2;
    }
    int r = unit_dirs_find(args.user, args.unit_dir, &dirs, &err);
    if (r == 0 && !args.no_reload)
        r = unit_manager_open(args.user, &manager, &err);
    struct work w = {.args = &args, .manager = manager};
    if (r == 0) {
        w.dirs[0] = dirs.lasting;
        w.dirs[1] = dirs.runtime;
        w.units = kymo_calloc(UNITS_MAX, sizeof *w.units);
        r = w.units ? run(&w, &err) : kymo_err_set(&err, -ENOMEM, "out of memory");
    }
    kymo_free(w.units);
    if (r >= 0)
        return r;
    complain(err.text);
    return 1;
}
