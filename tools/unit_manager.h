/*
 * What kymo asks of a service manager (systemd) over D-Bus: what units are, which belong to a slice, where their files
 * lie, a reload, restarts. Names, defaults and merging are systemd's; nothing of its files is parsed here but
 * environment files, whose contents it does not tell. Not thread-safe. Every call ends within the time limit.
 */
#ifndef KYMO_TOOLS_UNIT_MANAGER_H
#define KYMO_TOOLS_UNIT_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/options.h"

#define UNIT_MANAGER_NAME_MAX 255
#define UNIT_MANAGER_MEMBERS_MAX 4096 /* services of a slice */
#define UNIT_MANAGER_CALL_MS 30000

/* Which manager, and how long it may take: for members user (bool) and timeout_s (uint64_t). */
#define UNIT_MANAGER_ROWS(type_)                                                                                       \
    {.name = "user",                                                                                                   \
     .type = KYMO_OPTION_FLAG,                                                                                         \
     .offset = offsetof(type_, user),                                                                                  \
     .help = "units of your own service manager"},                                                                     \
    {                                                                                                                  \
        .name = "timeout", .type = KYMO_OPTION_U64, .arg = "SECONDS", .def = "90", .min = 1, .max = 3600,              \
        .offset = offsetof(type_, timeout_s), .help = "for each restart"                                               \
    }

struct unit_manager;

/* -ENOTCONN: there is no bus, or no service manager on it. user: the caller's own manager. */
int unit_manager_open(bool user, struct unit_manager **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct unit_manager *unit_manager_close(struct unit_manager *m); /* NULL is fine; returns NULL */
void unit_manager_closep(struct unit_manager **m);

/* What decides whether and how a service can be given the hook. Zero-initialise; unit_manager_done frees. */
struct unit_manager_service {
    char id[UNIT_MANAGER_NAME_MAX + 1]; /* the name behind aliases */
    char load[32], active[32];          /* "loaded", "not-found", "masked", …; "active", "inactive", … */
    char slice[UNIT_MANAGER_NAME_MAX + 1];
    char *preload;        /* LD_PRELOAD of Environment=, else of the manager's own environment; never NULL */
    char *file;           /* an environment file that sets LD_PRELOAD and so wins; NULL: none */
    bool unset;           /* UnsetEnvironment= takes LD_PRELOAD away */
    bool own_root;        /* RootDirectory= or RootImage= */
    bool no_local_socket; /* RestrictAddressFamilies= without AF_UNIX */
};
void unit_manager_done(struct unit_manager_service *s);

/*
 * name is a service or a template ("train@.service", looked at through an instance that nobody uses). -ENOENT: no such
 * unit; -EINVAL: no name of a unit, or a template whose LD_PRELOAD depends on the instance.
 */
int unit_manager_look(struct unit_manager *m, const char *name, struct unit_manager_service *ret,
                      struct kymo_err *err) KYMO_MUST_CHECK;

/* Calls each with the name of every service, loaded or installed, that is in the slice or in one below it. */
int unit_manager_members(struct unit_manager *m, const char *slice, int (*each)(void *ctx, const char *name), void *ctx,
                         struct kymo_err *err) KYMO_MUST_CHECK;
/* 0: the slice is there, by file or by what runs in it. -ENOENT: not. */
int unit_manager_has_slice(struct unit_manager *m, const char *slice, struct kymo_err *err) KYMO_MUST_CHECK;

/* 1: dir is one of those where the manager looks for units and their drop-ins. */
int unit_manager_reads(struct unit_manager *m, const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;

int unit_manager_reload(struct unit_manager *m, struct kymo_err *err) KYMO_MUST_CHECK;
/* Restarts the unit if it runs and waits for the end of it. -EIO: it did not come up again. */
int unit_manager_restart(struct unit_manager *m, const char *name, uint64_t timeout_ms,
                         struct kymo_err *err) KYMO_MUST_CHECK;

#endif
