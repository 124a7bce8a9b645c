/*
 * The members of a parent: directories of tables, or the reason why there is none. From the command line, or from a
 * file of lines "STATE<tab>NAME<tab>DIRECTORY<tab>REASON" with STATE "ready" where there is a directory.
 */
#ifndef KYMO_COLLECTOR_GATHER_GATHER_MEMBERS_H
#define KYMO_COLLECTOR_GATHER_GATHER_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define GATHER_MEMBERS_MAX 65536
#define GATHER_MEMBERS_BYTES_MAX (64u << 20) /* of the file */

struct gather_member {
    char *state, *name, *dir, *reason; /* dir "": none */
};

struct gather_members {
    struct gather_member *list;
    size_t n, cap;
};

/* The name is the directory's, without "@latest". */
int gather_members_add_dir(struct gather_members *m, const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;
/* A system profile is of a process, no rank: it has no tables that could be part of a parent. */
bool gather_members_is_system(const char *dir);
int gather_members_read(struct gather_members *m, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* -EEXIST: a directory is there twice, under whatever names. Counted twice, a rank would wait for itself. */
int gather_members_check(const struct gather_members *m, struct kymo_err *err) KYMO_MUST_CHECK;
void gather_members_done(struct gather_members *m);

#endif
