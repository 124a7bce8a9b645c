#include "tools/unit_manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <systemd/sd-bus.h>

#include "base/alloc.h"
#include "tools/env_file.h"

#define SYSTEMD "org.freedesktop.systemd1"
#define MANAGER_PATH "/org/freedesktop/systemd1"
#define MANAGER SYSTEMD ".Manager"
#define UNIT SYSTEMD ".Unit"
#define SERVICE SYSTEMD ".Service"
#define PRELOAD "LD_PRELOAD"
#define STRINGS_MAX 4096

struct unit_manager {
    sd_bus *bus;
    bool subscribed;
    char removed_job[256]; /* object path of the job that is waited for */
    char result[64];       /* of it; "": not yet */
};

/* ---- errors ---- */

static int fail_bus(struct kymo_err *err, int r, const sd_bus_error *e, const char *what)
{
    static const struct {
        const char *name;
        int code;
    } known[] = {
        {SYSTEMD ".NoSuchUnit", -ENOENT},
        {SD_BUS_ERROR_FILE_NOT_FOUND, -ENOENT},
        {SD_BUS_ERROR_ACCESS_DENIED, -EACCES},
        {SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED, -EACCES},
        {SD_BUS_ERROR_INVALID_ARGS, -EINVAL},
        {SD_BUS_ERROR_SERVICE_UNKNOWN, -ENOTCONN},
        {SD_BUS_ERROR_NAME_HAS_NO_OWNER, -ENOTCONN},
        {SD_BUS_ERROR_NO_REPLY, -ETIMEDOUT},
    };
    for (size_t i = 0; e && e->name && i < sizeof known / sizeof *known; i++)
        if (strcmp(e->name, known[i].name) == 0)
            r = known[i].code;
    if (r == -ENOTCONN)
        return kymo_err_set(err, r, "%s: there is no systemd on the bus", what);
    return kymo_err_set(err, r, "%s: systemd says: %s", what, e && e->message ? e->message : strerror(-r));
}

/* ---- connection ---- */

static int on_job_removed(sd_bus_message *msg, void *ctx, sd_bus_error *error)
{
    (void)error;
    struct unit_manager *m = ctx;
    const char *job, *result;
    if (sd_bus_message_read(msg, "uoss", NULL, &job, NULL, &result) < 0)
        return 0;
    if (strcmp(job, m->removed_job) == 0)
        (void)snprintf(m->result, sizeof m->result, "%s", result);
    return 0;
}

int unit_manager_open(bool user, struct unit_manager **ret, struct kymo_err *err)
{
    struct unit_manager *m KYMO_CLEANUP(unit_manager_closep) = KYMO_NEW(struct unit_manager);
    if (!m)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int r = user ? sd_bus_open_user(&m->bus) : sd_bus_open_system(&m->bus);
    if (r < 0)
        return kymo_err_set(err, -ENOTCONN, "the %s bus cannot be reached: %s", user ? "user's" : "system",
                            strerror(-r));
    (void)sd_bus_set_method_call_timeout(m->bus, UNIT_MANAGER_CALL_MS * 1000ull);
    *ret = KYMO_TAKE(m);
    return 0;
}

struct unit_manager *unit_manager_close(struct unit_manager *m)
{
    if (m) {
        m->bus = sd_bus_flush_close_unref(m->bus);
        kymo_free(m);
    }
    return NULL;
}

void unit_manager_closep(struct unit_manager **m)
{
    *m = unit_manager_close(*m);
}

/* ---- properties ---- */

static int get_text(struct unit_manager *m, const char *path, const char *interface, const char *name, char *ret,
                    size_t size, struct kymo_err *err)
{
    sd_bus_error e KYMO_CLEANUP(sd_bus_error_free) = SD_BUS_ERROR_NULL;
    char *text KYMO_FREE = NULL;
    int r = sd_bus_get_property_string(m->bus, SYSTEMD, path, interface, name, &e, &text);
    if (r < 0)
        return fail_bus(err, r, &e, name);
    size_t n = strlen(text);
    if (n >= size)
        return kymo_err_set(err, -EFBIG, "%s: %zu bytes, more than the limit of %zu", name, n, size - 1);
    memcpy(ret, text, n + 1);
    return 0;
}

static int has_text(struct unit_manager *m, const char *path, const char *name, bool *ret, struct kymo_err *err)
{
    char text[4096] = "";
    int r = get_text(m, path, SERVICE, name, text, sizeof text, err);
    if (text[0])
        *ret = true;
    return r;
}

static int get_property(struct unit_manager *m, const char *path, const char *interface, const char *name,
                        const char *type, sd_bus_message **ret, struct kymo_err *err)
{
    sd_bus_error e KYMO_CLEANUP(sd_bus_error_free) = SD_BUS_ERROR_NULL;
    int r = sd_bus_get_property(m->bus, SYSTEMD, path, interface, name, &e, ret, type);
    return r < 0 ? fail_bus(err, r, &e, name) : 0;
}

/* Calls each with the strings of a property; a positive return ends it and is returned. */
static int each_string(struct unit_manager *m, const char *path, const char *interface, const char *name,
                       int (*each)(void *ctx, const char *text), void *ctx, struct kymo_err *err)
{
    sd_bus_message *msg KYMO_CLEANUP(sd_bus_message_unrefp) = NULL;
    const char *text;
    int r = get_property(m, path, interface, name, "as", &msg, err);
    if (r < 0)
        return r;
    r = sd_bus_message_enter_container(msg, 'a', "s");
    for (size_t i = 0; r >= 0 && i < STRINGS_MAX; i++) {
        r = sd_bus_message_read(msg, "s", &text);
        if (r <= 0)
            return r < 0 ? kymo_err_set(err, r, "%s: %s", name, strerror(-r)) : 0;
        r = each(ctx, text);
        if (r > 0)
            return r;
    }
    return kymo_err_set(err, r < 0 ? r : -E2BIG, "%s: %s", name, strerror(r < 0 ? -r : E2BIG));
}

struct preload_search {
    char *value;
    bool failed;
};

/* The last assignment counts. */
static int on_variable(void *ctx, const char *text)
{
    struct preload_search *s = ctx;
    static const char prefix[] = PRELOAD "=";
    if (strncmp(text, prefix, sizeof prefix - 1) != 0)
        return 0;
    kymo_free(s->value);
    s->value = kymo_strdup(text + sizeof prefix - 1);
    s->failed = s->value == NULL;
    return s->failed;
}

static int find_preload(struct unit_manager *m, const char *path, char **ret, struct kymo_err *err)
{
    struct preload_search s = {0};
    int r = each_string(m, path, SERVICE, "Environment", on_variable, &s, err);
    if (r == 0 && !s.value)
        r = each_string(m, MANAGER_PATH, MANAGER, "Environment", on_variable, &s, err);
    if (r == 0 && !s.value)
        s.value = kymo_strdup("");
    if (r < 0) {
        kymo_free(s.value);
        return r;
    }
    if (s.failed || !s.value)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    *ret = s.value;
    return 0;
}

/* UnsetEnvironment= takes names, or assignments that must match. */
static int on_unset(void *ctx, const char *text)
{
    (void)ctx;
    return strncmp(text, PRELOAD, sizeof PRELOAD - 1) == 0 &&
           (text[sizeof PRELOAD - 1] == '\0' || text[sizeof PRELOAD - 1] == '=');
}

static int find_file(struct unit_manager *m, const char *path, char **ret, struct kymo_err *err)
{
    sd_bus_message *msg KYMO_CLEANUP(sd_bus_message_unrefp) = NULL;
    const char *pattern;
    int r = get_property(m, path, SERVICE, "EnvironmentFiles", "a(sb)", &msg, err);
    if (r < 0)
        return r;
    r = sd_bus_message_enter_container(msg, 'a', "(sb)");
    for (size_t i = 0; r >= 0 && i < STRINGS_MAX && !*ret; i++) {
        r = sd_bus_message_read(msg, "(sb)", &pattern, NULL);
        if (r == 0)
            return 0;
        if (r > 0 && env_file_find(pattern, PRELOAD, ret, err) < 0)
            return -ENOMEM;
    }
    return r < 0 ? kymo_err_set(err, r, "EnvironmentFiles: %s", strerror(-r)) : 0;
}

/* A list that allows, without AF_UNIX, or one that forbids, with it. */
static int find_families(struct unit_manager *m, const char *path, bool *ret, struct kymo_err *err)
{
    sd_bus_message *msg KYMO_CLEANUP(sd_bus_message_unrefp) = NULL;
    int allow = 0, r = get_property(m, path, SERVICE, "RestrictAddressFamilies", "(bas)", &msg, err);
    if (r < 0)
        return r;
    bool named = false, any = false;
    const char *family;
    r = sd_bus_message_enter_container(msg, 'r', "bas");
    if (r >= 0)
        r = sd_bus_message_read(msg, "b", &allow);
    if (r >= 0)
        r = sd_bus_message_enter_container(msg, 'a', "s");
    while (r >= 0 && (r = sd_bus_message_read(msg, "s", &family)) > 0) {
        any = true;
        named = named || strcmp(family, "AF_UNIX") == 0;
    }
    if (r < 0)
        return kymo_err_set(err, r, "RestrictAddressFamilies: %s", strerror(-r));
    *ret = allow ? !named && any : named;
    return 0;
}

/* ---- a service ---- */

void unit_manager_done(struct unit_manager_service *s)
{
    kymo_free(s->preload);
    kymo_free(s->file);
    memset(s, 0, sizeof *s);
}

static int load_unit(struct unit_manager *m, const char *name, char *ret_path, size_t size, struct kymo_err *err)
{
    sd_bus_error e KYMO_CLEANUP(sd_bus_error_free) = SD_BUS_ERROR_NULL;
    sd_bus_message *reply KYMO_CLEANUP(sd_bus_message_unrefp) = NULL;
    const char *path = NULL;
    int r = sd_bus_call_method(m->bus, SYSTEMD, MANAGER_PATH, MANAGER, "LoadUnit", &e, &reply, "s", name);
    if (r >= 0)
        r = sd_bus_message_read(reply, "o", &path);
    if (r < 0)
        return fail_bus(err, r, &e, name);
    if (strlen(path) >= size)
        return kymo_err_set(err, -ENAMETOOLONG, "%s: its object's path is too long", name);
    memcpy(ret_path, path, strlen(path) + 1);
    return 0;
}

static int look_at_service(struct unit_manager *m, const char *name, struct unit_manager_service *s,
                           struct kymo_err *err)
{
    char path[1024];
    int r = load_unit(m, name, path, sizeof path, err);
    if (r == 0)
        r = get_text(m, path, UNIT, "Id", s->id, sizeof s->id, err);
    if (r == 0)
        r = get_text(m, path, UNIT, "LoadState", s->load, sizeof s->load, err);
    if (r < 0)
        return r;
    if (strcmp(s->load, "not-found") == 0)
        return kymo_err_set(err, -ENOENT, "%s: there is no such unit", name);
    if (strcmp(s->load, "loaded") != 0)
        return kymo_err_set(err, -EINVAL, "%s: systemd cannot use this unit: it is %s", name, s->load);
    r = get_text(m, path, UNIT, "ActiveState", s->active, sizeof s->active, err);
    if (r == 0)
        r = get_text(m, path, SERVICE, "Slice", s->slice, sizeof s->slice, err);
    if (r == 0)
        r = has_text(m, path, "RootDirectory", &s->own_root, err);
    if (r == 0)
        r = has_text(m, path, "RootImage", &s->own_root, err);
    if (r == 0)
        r = find_preload(m, path, &s->preload, err);
    if (r == 0)
        r = find_file(m, path, &s->file, err);
    if (r == 0)
        r = find_families(m, path, &s->no_local_socket, err);
    if (r != 0)
        return r;
    r = each_string(m, path, SERVICE, "UnsetEnvironment", on_unset, NULL, err);
    if (r < 0)
        return r;
    s->unset = r > 0;
    return 0;
}

/* Templates are looked at through two instances; what differs between them depends on the instance. */
static int look_at_template(struct unit_manager *m, const char *name, struct unit_manager_service *s,
                            struct kymo_err *err)
{
    static const char *const instances[] = {"kymo-looks-1", "kymo-looks-2"};
    struct unit_manager_service other KYMO_CLEANUP(unit_manager_done) = {0};
    struct unit_manager_service *const both[] = {s, &other};
    size_t head = (size_t)(strchr(name, '@') + 1 - name);
    for (size_t i = 0; i < 2; i++) {
        char instance[2 * UNIT_MANAGER_NAME_MAX];
        (void)snprintf(instance, sizeof instance, "%.*s%s%s", (int)head, name, instances[i], name + head);
        int r = look_at_service(m, instance, both[i], err);
        if (r != 0)
            return r == -ENOENT ? kymo_err_set(err, r, "%s: there is no such template", name) : r;
    }
    if (strcmp(s->preload, other.preload) != 0)
        return kymo_err_set(err, -EINVAL, "%s: its LD_PRELOAD depends on the instance; name the instances", name);
    (void)snprintf(s->id, sizeof s->id, "%s", name);
    (void)snprintf(s->active, sizeof s->active, "inactive");
    return 0;
}

int unit_manager_look(struct unit_manager *m, const char *name, struct unit_manager_service *ret, struct kymo_err *err)
{
    struct unit_manager_service s KYMO_CLEANUP(unit_manager_done) = {0};
    const char *at = strchr(name, '@');
    if (strlen(name) > UNIT_MANAGER_NAME_MAX)
        return kymo_err_set(err, -EINVAL, "%.80s…: names of units have at most %d bytes", name, UNIT_MANAGER_NAME_MAX);
    int r = at && at[1] == '.' ? look_at_template(m, name, &s, err) : look_at_service(m, name, &s, err);
    if (r < 0)
        return r;
    *ret = s;
    memset(&s, 0, sizeof s);
    return 0;
}

/* ---- slices ---- */

struct names {
    size_t n, cap;
    char **items;
};

static void names_done(struct names *l)
{
    for (size_t i = 0; i < l->n; i++)
        kymo_free(l->items[i]);
    kymo_free((void *)l->items);
}

static int names_add(struct names *l, const char *name, struct kymo_err *err)
{
    void *items = (void *)l->items;
    int r = kymo_grow(&items, &l->cap, l->n + 1, UNIT_MANAGER_MEMBERS_MAX, sizeof *l->items);
    l->items = items;
    if (r == 0 && !(l->items[l->n] = kymo_strdup(name)))
        r = -ENOMEM;
    if (r < 0)
        return kymo_err_set(err, r, "more than %d services", UNIT_MANAGER_MEMBERS_MAX);
    l->n++;
    return 0;
}

static int list_units(struct unit_manager *m, const char *pattern, struct names *l, struct kymo_err *err)
{
    sd_bus_error e KYMO_CLEANUP(sd_bus_error_free) = SD_BUS_ERROR_NULL;
    sd_bus_message *reply KYMO_CLEANUP(sd_bus_message_unrefp) = NULL;
    const char *name, *load;
    int r = sd_bus_call_method(m->bus, SYSTEMD, MANAGER_PATH, MANAGER, "ListUnitsByPatterns", &e, &reply, "asas", 0, 1,
                               pattern);
    if (r < 0)
        return fail_bus(err, r, &e, pattern);
    r = sd_bus_message_enter_container(reply, 'a', "(ssssssouso)");
    while (r >= 0 && (r = sd_bus_message_read(reply, "(ssssssouso)", &name, NULL, &load, NULL, NULL, NULL, NULL, NULL,
                                              NULL, NULL)) > 0)
        if (strcmp(load, "loaded") == 0 && names_add(l, name, err) < 0)
            return -E2BIG;
    return r < 0 ? kymo_err_set(err, r, "%s: %s", pattern, strerror(-r)) : 0;
}

/* Files as well: a training unit that does not run now need not be loaded. Templates have no slice of their own. */
static int list_files(struct unit_manager *m, const char *pattern, struct names *l, struct kymo_err *err)
{
    sd_bus_error e KYMO_CLEANUP(sd_bus_error_free) = SD_BUS_ERROR_NULL;
    sd_bus_message *reply KYMO_CLEANUP(sd_bus_message_unrefp) = NULL;
    const char *file, *state;
    int r = sd_bus_call_method(m->bus, SYSTEMD, MANAGER_PATH, MANAGER, "ListUnitFilesByPatterns", &e, &reply, "asas", 0,
                               1, pattern);
    if (r < 0)
        return fail_bus(err, r, &e, pattern);
    r = sd_bus_message_enter_container(reply, 'a', "(ss)");
    while (r >= 0 && (r = sd_bus_message_read(reply, "(ss)", &file, &state)) > 0) {
        const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
        const char *at = strchr(name, '@');
        if ((at && at[1] == '.') || strcmp(state, "masked") == 0 || strcmp(state, "alias") == 0)
            continue;
        if (names_add(l, name, err) < 0)
            return -E2BIG;
    }
    return r < 0 ? kymo_err_set(err, r, "%s: %s", pattern, strerror(-r)) : 0;
}

/* "training-a.slice" is below "training.slice": slices are nested by their names. */
static bool is_within(const char *slice, const char *above)
{
    size_t n = strlen(above) - (sizeof ".slice" - 1);
    return strcmp(slice, above) == 0 || (strncmp(slice, above, n) == 0 && slice[n] == '-');
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int unit_manager_members(struct unit_manager *m, const char *slice, int (*each)(void *ctx, const char *name), void *ctx,
                         struct kymo_err *err)
{
    struct names l KYMO_CLEANUP(names_done) = {0};
    int r = list_units(m, "*.service", &l, err);
    if (r == 0)
        r = list_files(m, "*.service", &l, err);
    if (r < 0)
        return r;
    if (l.n)
        qsort((void *)l.items, l.n, sizeof *l.items, compare_names);
    for (size_t i = 0; i < l.n; i++) {
        char path[1024], id[UNIT_MANAGER_NAME_MAX + 1], of[UNIT_MANAGER_NAME_MAX + 1];
        if (i > 0 && strcmp(l.items[i - 1], l.items[i]) == 0)
            continue;
        /* One that went away meanwhile, or cannot be loaded, is in no slice. */
        if (load_unit(m, l.items[i], path, sizeof path, NULL) < 0 ||
            get_text(m, path, UNIT, "Id", id, sizeof id, NULL) < 0 ||
            get_text(m, path, SERVICE, "Slice", of, sizeof of, NULL) < 0)
            continue;
        if (strcmp(id, l.items[i]) == 0 && is_within(of, slice) && (r = each(ctx, id)) != 0)
            return r;
    }
    return 0;
}

int unit_manager_has_slice(struct unit_manager *m, const char *slice, struct kymo_err *err)
{
    char path[1024], load[32], active[32];
    int r = load_unit(m, slice, path, sizeof path, err);
    if (r == 0)
        r = get_text(m, path, UNIT, "LoadState", load, sizeof load, err);
    if (r == 0)
        r = get_text(m, path, UNIT, "ActiveState", active, sizeof active, err);
    if (r < 0)
        return r;
    /* Slices need no file: that one is named in Slice= is enough. */
    if (strcmp(load, "loaded") != 0 && strcmp(active, "inactive") == 0)
        return kymo_err_set(err, -ENOENT, "%s: there is no such slice", slice);
    return 0;
}

/* ---- the manager ---- */

static int on_dir(void *ctx, const char *text)
{
    return strcmp(ctx, text) == 0;
}

int unit_manager_reads(struct unit_manager *m, const char *dir, struct kymo_err *err)
{
    char *copy KYMO_FREE = kymo_strdup(dir);
    if (!copy)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    return each_string(m, MANAGER_PATH, MANAGER, "UnitPath", on_dir, copy, err);
}

int unit_manager_reload(struct unit_manager *m, struct kymo_err *err)
{
    sd_bus_error e KYMO_CLEANUP(sd_bus_error_free) = SD_BUS_ERROR_NULL;
    int r = sd_bus_call_method(m->bus, SYSTEMD, MANAGER_PATH, MANAGER, "Reload", &e, NULL, "");
    return r < 0 ? fail_bus(err, r, &e, "reload") : 0;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int wait_for_job(struct unit_manager *m, const char *name, uint64_t timeout_ms, struct kymo_err *err)
{
    uint64_t now, end = now_ms() + timeout_ms;
    while (!m->result[0] && (now = now_ms()) < end) {
        int r = sd_bus_process(m->bus, NULL);
        if (r == 0)
            r = sd_bus_wait(m->bus, (end - now) * 1000);
        if (r < 0 && r != -EINTR)
            return kymo_err_set(err, r, "%s: the bus has gone while it restarted: %s", name, strerror(-r));
    }
    if (!m->result[0])
        return kymo_err_set(err, -ETIMEDOUT, "%s: has not restarted within %llu s", name,
                            (unsigned long long)(timeout_ms / 1000));
    if (strcmp(m->result, "done") != 0)
        return kymo_err_set(err, -EIO, "%s: the restart ended with: %s", name, m->result);
    return 0;
}

int unit_manager_restart(struct unit_manager *m, const char *name, uint64_t timeout_ms, struct kymo_err *err)
{
    sd_bus_error e KYMO_CLEANUP(sd_bus_error_free) = SD_BUS_ERROR_NULL;
    sd_bus_slot *slot KYMO_CLEANUP(sd_bus_slot_unrefp) = NULL;
    sd_bus_message *reply KYMO_CLEANUP(sd_bus_message_unrefp) = NULL;
    const char *job = NULL;
    m->removed_job[0] = m->result[0] = '\0';
    int r = sd_bus_match_signal(m->bus, &slot, SYSTEMD, MANAGER_PATH, MANAGER, "JobRemoved", on_job_removed, m);
    if (r >= 0 && !m->subscribed)
        r = sd_bus_call_method(m->bus, SYSTEMD, MANAGER_PATH, MANAGER, "Subscribe", &e, NULL, "");
    m->subscribed = m->subscribed || r >= 0;
    if (r >= 0)
        r = sd_bus_call_method(m->bus, SYSTEMD, MANAGER_PATH, MANAGER, "TryRestartUnit", &e, &reply, "ss", name,
                               "replace");
    if (r >= 0)
        r = sd_bus_message_read(reply, "o", &job);
    if (r < 0)
        return fail_bus(err, r, &e, name);
    (void)snprintf(m->removed_job, sizeof m->removed_job, "%s", job);
    /* Signals come after the reply that tells the job's name, and are looked at from here on. */
    return wait_for_job(m, name, timeout_ms, err);
}
