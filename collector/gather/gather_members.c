#include "collector/gather/gather_members.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"

#define FIELDS 4
#define LATEST "@latest"

static int add(struct gather_members *m, const char *const fields[static FIELDS], struct kymo_err *err)
{
    void *p = m->list;
    int r = kymo_grow(&p, &m->cap, m->n + 1, GATHER_MEMBERS_MAX, sizeof *m->list);
    m->list = p;
    if (r < 0)
        return kymo_err_set(err, r, "more than %d members, or no memory for them", GATHER_MEMBERS_MAX);
    struct gather_member *to = &m->list[m->n++];
    *to = (struct gather_member){kymo_strdup(fields[0]), kymo_strdup(fields[1]), kymo_strdup(fields[2]),
                                 kymo_strdup(fields[3])};
    return to->state && to->name && to->dir && to->reason ? 0 : kymo_err_set(err, -ENOMEM, "no memory for a member");
}

int gather_members_add_dir(struct gather_members *m, const char *dir, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_strdup(dir);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "no memory for a member");
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    const char *slash = strrchr(path, '/');
    char *name KYMO_FREE = kymo_strdup(slash && slash[1] ? slash + 1 : path);
    size_t len = name ? strlen(name) : 0, suffix = sizeof LATEST - 1;
    if (len > suffix && !strcmp(name + len - suffix, LATEST))
        name[len - suffix] = '\0';
    const char *const fields[FIELDS] = {"ready", name ? name : "", dir, ""};
    return add(m, fields, err);
}

/* In one file, or in parts. */
static bool has_table(const char *dir, const char *table)
{
    char *whole KYMO_FREE = kymo_asprintf("%s/%s.parquet", dir, table);
    char *part KYMO_FREE = kymo_asprintf("%s/%s_0.parquet", dir, table);
    struct stat st;
    return (whole && stat(whole, &st) == 0) || (part && stat(part, &st) == 0);
}

bool gather_members_is_system(const char *dir)
{
    return has_table(dir, "SystemProfileMetadata") && !has_table(dir, "Metadata");
}

static int add_line(struct gather_members *m, char *line, size_t number, const char *path, struct kymo_err *err)
{
    const char *fields[FIELDS] = {line, "", "", ""};
    size_t n = 1;
    for (char *p = line; *p; p++)
        if (*p == '\t' && n < FIELDS) {
            *p = '\0';
            fields[n++] = p + 1;
        }
    if (n != FIELDS || !*fields[1] || (!strcmp(fields[0], "ready") && !*fields[2]))
        return kymo_err_set(err, -EPROTO, "%s: line %zu: no state, name, directory and reason", path, number);
    return add(m, fields, err);
}

int gather_members_read(struct gather_members *m, const char *path, struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n = 0, number = 0;
    int r = kymo_file_read_all(path, GATHER_MEMBERS_BYTES_MAX, &data, &n, err);
    if (r < 0)
        return r;
    char *text KYMO_FREE = kymo_malloc(n + 1);
    if (!text)
        return kymo_err_set(err, -ENOMEM, "no memory for the list of members");
    memcpy(text, data, n);
    text[n] = '\0';
    for (char *line = text, *end; r == 0 && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        r = add_line(m, line, ++number, path, err);
    }
    return r;
}

struct place {
    dev_t device;
    ino_t inode;
    const char *dir;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->inode > y->inode) - (x->inode < y->inode);
}

int gather_members_check(const struct gather_members *m, struct kymo_err *err)
{
    struct place *places KYMO_FREE = KYMO_NEW_ARRAY(struct place, m->n + 1);
    size_t n = 0;
    if (!places)
        return kymo_err_set(err, -ENOMEM, "no memory for the list of members");
    for (size_t i = 0; i < m->n; i++) {
        struct stat st;
        if (*m->list[i].dir && stat(m->list[i].dir, &st) == 0)
            places[n++] = (struct place){st.st_dev, st.st_ino, m->list[i].dir};
    }
    qsort(places, n, sizeof *places, by_place);
    for (size_t i = 1; i < n; i++)
        if (by_place(&places[i - 1], &places[i]) == 0)
            return kymo_err_set(err, -EEXIST, "a member is given twice: %s and %s", places[i - 1].dir, places[i].dir);
    return 0;
}

void gather_members_done(struct gather_members *m)
{
    for (size_t i = 0; i < m->n; i++) {
        kymo_free(m->list[i].state);
        kymo_free(m->list[i].name);
        kymo_free(m->list[i].dir);
        kymo_free(m->list[i].reason);
    }
    kymo_free(m->list);
    *m = (struct gather_members){0};
}
