/* kymo enable: puts the hook into chosen services, by drop-ins that kymo disable takes out again. */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/sibling.h"
#include "tools/hook_dropin.h"
#include "tools/subcommands.h"
#include "tools/unit_dirs.h"
#include "tools/unit_manager.h"

#define TARGETS_MAX 1024

struct args {
    struct kymo_option_list units;
    bool now, runtime, user;
    const char *hook, *socket, *unit_dir;
    uint64_t timeout_s;
};

static const struct kymo_option rows[] = {
    {.name = "UNIT|SLICE",
     .type = KYMO_OPTION_POSITIONALS,
     .required = true,
     .offset = offsetof(struct args, units),
     .help = "services, templates (train@.service), or slices"},
    {.name = "now",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, now),
     .help = "restart those that run; without it the hook comes with their next start"},
    {.name = "runtime",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, runtime),
     .help = "until the next boot only"},
    {.name = "hook",
     .type = KYMO_OPTION_TEXT,
     .arg = "FILE",
     .offset = offsetof(struct args, hook),
     .help = "the library; default: the one that came with this program"},
    {.name = "socket",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct args, socket),
     .help = "where the daemon's hook.sock is, if not in /run/kymo"},
    {.name = "unit-dir",
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .offset = offsetof(struct args, unit_dir),
     .help = "where drop-ins go, one of those that the manager reads; default: its directory for administrators"},
    UNIT_MANAGER_ROWS(struct args),
    {0}};

static const struct kymo_options spec = {
    .program = "kymo enable",
    .about =
        "Puts the hook into services: writes UNIT.d/" HOOK_DROPIN_FILE
        " with LD_PRELOAD, behind what the unit preloads\n"
        "by itself, and has systemd read it. What runs goes on without the hook until it starts again (--now).\n"
        "\n"
        "A slice means every service, running or only installed, whose Slice= is that slice or one below it. A unit "
        "that\n"
        "is installed or started there later is not covered: run this again, which changes nothing for the others. "
        "For\n"
        "instances of a template that do not exist yet, name the template. Scopes (containers, sessions, systemd-run\n"
        "--scope) have no environment that a drop-in could set: set LD_PRELOAD where the container is made.",
    .rows = rows,
};

struct target {
    char name[HOOK_DROPIN_UNIT_MAX + 1];
    const char *through; /* NULL: named itself */
    struct hook_dropin_change change;
    bool failed, runs;
};

struct work {
    const struct args *args;
    const char *dir;
    struct unit_manager *manager;
    const char *slice; /* being looked at */
    size_t n;
    struct target *targets;
};

static void complain(const char *text)
{
    (void)fprintf(stderr, "kymo enable: %s\n", text);
}

/* ---- what is meant ---- */

static int add_target(struct work *w, const char *name, const char *through, struct kymo_err *err)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->targets[i].name, name) == 0)
            return 0;
    if (w->n == TARGETS_MAX)
        return kymo_err_set(err, -E2BIG, "more than %d services", TARGETS_MAX);
    if (!hook_dropin_unit_ok(name, ".service"))
        return kymo_err_set(err, -EINVAL, "%.80s: not the name of a service", name);
    (void)snprintf(w->targets[w->n].name, sizeof w->targets[0].name, "%s", name);
    w->targets[w->n++].through = through;
    return 0;
}

static bool is_our_own(const char *name)
{
    return strcmp(name, "kymod.service") == 0 || strcmp(name, "kymo-collector.service") == 0;
}

static int on_member(void *ctx, const char *name)
{
    struct work *w = ctx;
    return is_our_own(name) ? 0 : add_target(w, name, w->slice, NULL);
}

static int add_slice(struct work *w, const char *name, struct kymo_err *err)
{
    static const char *const everything[] = {"-.slice",   "system.slice",  "user.slice",      "machine.slice",
                                             "app.slice", "session.slice", "background.slice"};
    for (size_t i = 0; i < sizeof everything / sizeof *everything; i++)
        if (strcmp(name, everything[i]) == 0)
            return kymo_err_set(err, -EPERM, "%s: holds far more than training; use a slice of its own", name);
    size_t before = w->n;
    w->slice = name;
    int r = unit_manager_has_slice(w->manager, name, err);
    if (r == 0)
        r = unit_manager_members(w->manager, name, on_member, w, err);
    if (r == 0 && w->n == before)
        return kymo_err_set(err, -ENOENT, "%s: no service is in this slice", name);
    return r;
}

static int add_named(struct work *w, const char *name, struct kymo_err *err)
{
    char full[HOOK_DROPIN_UNIT_MAX + 1];
    struct unit_manager_service s KYMO_CLEANUP(unit_manager_done) = {0};
    int n = snprintf(full, sizeof full, "%s%s", name, strchr(name, '.') ? "" : ".service");
    if (n < 0 || (size_t)n >= sizeof full)
        return kymo_err_set(err, -EINVAL, "%.80s…: names of units have at most %d bytes", name, HOOK_DROPIN_UNIT_MAX);
    if (hook_dropin_unit_ok(full, ".slice"))
        return add_slice(w, name, err);
    if (hook_dropin_unit_ok(full, ".scope"))
        return kymo_err_set(err, -EINVAL,
                            "%s: a scope has no environment to set; set LD_PRELOAD where its processes are started",
                            name);
    if (!hook_dropin_unit_ok(full, ".service"))
        return kymo_err_set(err, -EINVAL, "%.80s: not the name of a service or slice", name);
    int r = unit_manager_look(w->manager, full, &s, err);
    if (r < 0)
        return r;
    /* The drop-in belongs to the unit behind an alias. */
    if (is_our_own(s.id))
        return kymo_err_set(err, -EPERM, "%s: kymo does not profile itself", s.id);
    return add_target(w, s.id, NULL, err);
}

/* ---- what is written ---- */

/* Where the hook lies, seen from this program: installed, or in a build's directory. */
static int find_hook(char ret[static PATH_MAX], struct kymo_err *err)
{
    static const char *const places[] = {KYMO_HOOK_PLACE, "../lib/libkymo-hook.so"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int r = sibling_path(places[i], path, err);
        if (r < 0)
            return r;
        if (realpath(path, ret))
            return 0;
    }
    return kymo_err_set(err, -ENOENT, "there is no hook beside this program; name it with --hook");
}

/* Somebody else's library in a service of root's would be somebody else's root. */
static int check_hook(const struct args *a, struct kymo_err *err)
{
    struct stat st;
    if (!hook_dropin_path_ok(a->hook))
        return kymo_err_set(err, -EINVAL, "%.200s: the hook's path must be absolute, of letters, digits and ._/+-",
                            a->hook);
    if (stat(a->hook, &st) < 0 || !S_ISREG(st.st_mode))
        return kymo_err_set(err, -ENOENT, "%s: the hook is not there", a->hook);
    if (st.st_mode & (S_IWGRP | S_IWOTH) || (st.st_uid != 0 && st.st_uid != geteuid()))
        return kymo_err_set(err, -EPERM, "%s: others than its user may change the hook", a->hook);
    if (a->socket && !hook_dropin_path_ok(a->socket))
        return kymo_err_set(err, -EINVAL, "%.200s: --socket: an absolute path of letters, digits and ._/+-", a->socket);
    return 0;
}

static int check_service(const struct unit_manager_service *s, struct kymo_err *err)
{
    if (s->file)
        return kymo_err_set(err, -EEXIST, "%s: %s sets LD_PRELOAD, which wins over a drop-in; add the hook there",
                            s->id, s->file);
    if (s->unset)
        return kymo_err_set(err, -EEXIST, "%s: its UnsetEnvironment= takes LD_PRELOAD away", s->id);
    if (s->own_root)
        return kymo_err_set(err, -EINVAL, "%s: has a root of its own, in which the hook is not", s->id);
    if (s->no_local_socket)
        return kymo_err_set(err, -EINVAL, "%s: its RestrictAddressFamilies= lacks AF_UNIX, which the hook talks over",
                            s->id);
    return 0;
}

static int write_target(struct work *w, struct target *t, struct kymo_err *err)
{
    struct unit_manager_service s KYMO_CLEANUP(unit_manager_done) = {0};
    struct kymo_buf preload KYMO_CLEANUP(kymo_buf_done);
    kymo_buf_init(&preload, HOOK_DROPIN_BYTES_MAX / 4);
    int r = unit_manager_look(w->manager, t->name, &s, err);
    if (r == 0)
        r = check_service(&s, err);
    if (r == 0)
        r = hook_dropin_preload_without(s.preload, &preload, err);
    if (r < 0)
        return r;
    t->runs =
        strcmp(s.active, "active") == 0 || strcmp(s.active, "reloading") == 0 || strcmp(s.active, "activating") == 0;
    const struct hook_dropin d = {
        .hook = w->args->hook, .preload = (const char *)preload.data, .socket = w->args->socket, .through = t->through};
    r = hook_dropin_write(w->dir, t->name, &d, &t->change, err);
    if (r < 0)
        kymo_err_prefix(err, "%s", t->name);
    return r;
}

/* systemd's own verdict: a later drop-in may set LD_PRELOAD again. */
static int check_target(struct work *w, const struct target *t, struct kymo_err *err)
{
    struct unit_manager_service s KYMO_CLEANUP(unit_manager_done) = {0};
    int r = unit_manager_look(w->manager, t->name, &s, err);
    if (r == 0 && !hook_dropin_preload_has(s.preload, w->args->hook))
        r = kymo_err_set(err, -EEXIST,
                         "%s: LD_PRELOAD is still \"%.200s\": a later drop-in sets it; add the hook there", t->name,
                         s.preload);
    return r;
}

static int undo(struct target *t)
{
    struct kymo_err err = {0};
    int r = hook_dropin_undo(&t->change, &err);
    if (r < 0)
        complain(err.text);
    return r;
}

/* Writes all, has them read, and takes back what does not hold. Returns the number that changed, or an error. */
static int apply(struct work *w, struct kymo_err *err)
{
    int changed = 0, undone = 0;
    for (size_t i = 0; i < w->n; i++) {
        struct target *t = &w->targets[i];
        struct kymo_err why = {0};
        t->failed = write_target(w, t, &why) < 0;
        if (t->failed)
            complain(why.text);
        changed += !t->failed && t->change.changed;
    }
    if (changed == 0)
        return 0;
    int r = unit_manager_reload(w->manager, err);
    if (r < 0) {
        for (size_t i = 0; i < w->n; i++)
            (void)undo(&w->targets[i]);
        return r;
    }
    for (size_t i = 0; i < w->n; i++) {
        struct target *t = &w->targets[i];
        struct kymo_err why = {0};
        if (t->failed || check_target(w, t, &why) == 0)
            continue;
        complain(why.text);
        t->failed = true;
        undone += t->change.changed && undo(t) == 0;
    }
    return undone ? unit_manager_reload(w->manager, err) : 0;
}

/* Says what became of each; the exit code. */
static int report(struct work *w)
{
    int code = 0;
    for (size_t i = 0; i < w->n; i++) {
        struct target *t = &w->targets[i];
        struct kymo_err err = {0};
        if (t->failed) {
            code = 1;
            continue;
        }
        printf("%s: %s%s%s\n", t->name, t->change.changed ? "enabled" : "was enabled", t->through ? " through " : "",
               t->through ? t->through : "");
        if (!t->runs || !w->args->now) {
            if (t->runs && t->change.changed)
                printf("%s: runs without the hook until it starts again\n", t->name);
            continue;
        }
        if (unit_manager_restart(w->manager, t->name, w->args->timeout_s * 1000, &err) < 0) {
            complain(err.text);
            code = 1;
        } else {
            printf("%s: restarted\n", t->name);
        }
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        complain("cannot write the output");
        code = 1;
    }
    return code;
}

static int run(struct work *w, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < w->args->units.n; i++)
        r = add_named(w, w->args->units.items[i], err);
    if (r == 0)
        r = apply(w, err);
    return r < 0 ? r : report(w);
}

int kymo_enable_main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    struct unit_dirs dirs;
    struct unit_manager *manager KYMO_CLEANUP(unit_manager_closep) = NULL;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    (void)umask(022);
    char hook[PATH_MAX];
    struct work w = {.args = &args};
    int r = args.hook ? 0 : find_hook(hook, &err);
    if (r == 0) {
        args.hook = args.hook ? args.hook : hook;
        r = check_hook(&args, &err);
    }
    if (r == 0)
        r = unit_dirs_find(args.user, args.unit_dir, &dirs, &err);
    if (r == 0) {
        w.dir = args.runtime ? dirs.runtime : dirs.lasting;
        if (!w.dir[0])
            r = kymo_err_set(&err, -ENOENT, "XDG_RUNTIME_DIR is not set: there is no directory for --runtime");
    }
    if (r == 0)
        r = unit_manager_open(args.user, &manager, &err);
    w.manager = manager;
    if (r == 0 && (r = unit_manager_reads(manager, w.dir, &err)) == 0)
        r = kymo_err_set(&err, -EINVAL, "%s: systemd does not look for units there", w.dir);
    if (r > 0 && !(w.targets = KYMO_NEW_ARRAY(struct target, TARGETS_MAX)))
        r = kymo_err_set(&err, -ENOMEM, "out of memory");
    if (r > 0)
        r = run(&w, &err);
    for (size_t i = 0; i < w.n; i++)
        hook_dropin_done(&w.targets[i].change);
    kymo_free(w.targets);
    if (r >= 0)
        return r;
    complain(err.text);
    return 1;
}
