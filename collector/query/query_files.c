#include "collector/query/query_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/file.h"
#include "formats/schema/schema.h"

#define SUFFIX ".parquet"
#define MAGIC_BYTES 4
#define TAIL_BYTES 8 /* length of the footer, little endian, and the magic */
#define PLACE "/proc/self/fd/"

/* The schema's spelling of n characters; NULL: it has no such table. */
static const char *known_table(const char *name, size_t n)
{
    for (int t = 0; t < KYMO_T_MAX; t++) {
        const char *known = kymo_schema_table((enum kymo_table_id)t)->name;
        if (strlen(known) == n && !strncasecmp(known, name, n))
            return known;
    }
    return NULL;
}

/* A glob would mix up DmaPacket and DmaPacketAggregated. */
static bool parse_name(const char *name, struct query_file *ret)
{
    size_t n = strlen(name), suffix = strlen(SUFFIX);
    if (n <= suffix || strcasecmp(name + n - suffix, SUFFIX) != 0)
        return false;
    size_t stem = n - suffix, digits = stem;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    ret->part = -1;
    if (digits < stem && stem - digits < 10 && digits > 1 && name[digits - 1] == '_') {
        ret->part = strtol(name + digits, NULL, 10);
        stem = digits - 1;
    }
    for (size_t i = 0; i < stem; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return false;
    const char *known = known_table(name, stem);
    ret->table = known ? known : name;
    ret->n = stem;
    return true;
}

bool query_files_is_table(const char *file, const char **ret_table, size_t *ret_n)
{
    struct query_file f;
    if (!parse_name(file, &f))
        return false;
    *ret_table = f.table;
    *ret_n = f.n;
    return true;
}

static int add_file(struct query_files *list, const char *name, struct kymo_err *err)
{
    char *copy KYMO_FREE = kymo_strdup(name);
    struct query_file f;
    if (!copy)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    if (!parse_name(copy, &f))
        return 0;
    void *p = list->items;
    int r = kymo_grow(&p, &list->cap, list->n + 1, QUERY_FILES_MAX, sizeof *list->items);
    if (r < 0)
        return kymo_err_set(err, r, "more than %d table files", QUERY_FILES_MAX);
    list->items = p;
    f.name = KYMO_TAKE(copy);
    list->items[list->n++] = f;
    return 0;
}

static bool is_schemas_own(const struct query_file *f)
{
    return !strncmp(f->name, f->table, f->n) && !strcmp(f->name + strlen(f->name) - strlen(SUFFIX), SUFFIX);
}

/* What differs only by case comes together, the schema's own spelling first. */
static int by_table_and_part(const void *a, const void *b)
{
    const struct query_file *x = a, *y = b;
    int c = strncasecmp(x->table, y->table, x->n < y->n ? x->n : y->n);
    if (c == 0)
        c = (x->n > y->n) - (x->n < y->n);
    if (c == 0)
        c = (x->part > y->part) - (x->part < y->part);
    if (c == 0)
        c = strcasecmp(x->name, y->name);
    if (c == 0)
        c = is_schemas_own(y) - is_schemas_own(x);
    return c ? c : strcmp(x->name, y->name);
}

static void drop_doubles(struct query_files *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->n; i++)
        if (kept && !strcasecmp(list->items[kept - 1].name, list->items[i].name))
            kymo_free(list->items[i].name);
        else
            list->items[kept++] = list->items[i];
    list->n = kept;
}

int query_files_list(const char *dir, struct query_files *ret, struct kymo_err *err)
{
    struct query_files list = {0};
    DIR *d = opendir(dir);
    int r = d ? 0 : kymo_err_set(err, -errno, "%s: cannot list: %s", dir, strerror(errno));
    for (const struct dirent *e; r == 0 && (e = readdir(d));)
        r = add_file(&list, e->d_name, err);
    if (d)
        (void)closedir(d);
    if (r < 0) {
        query_files_done(&list);
        return r;
    }
    if (list.n > 1)
        qsort(list.items, list.n, sizeof *list.items, by_table_and_part);
    drop_doubles(&list);
    *ret = list;
    return 0;
}

void query_files_done(struct query_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        kymo_free(f->items[i].name);
    kymo_free(f->items);
    *f = (struct query_files){0};
}

bool query_files_same_table(const struct query_file *a, const struct query_file *b)
{
    return a->n == b->n && !strncasecmp(a->table, b->table, a->n);
}

int query_files_only(const struct query_files *f, const char *dir, const char *table, char **ret_path,
                     struct kymo_err *err)
{
    const struct query_file wanted = {.table = table, .n = strlen(table)}, *found = NULL;
    size_t parts = 0;
    *ret_path = NULL;
    for (size_t i = 0; i < f->n; i++)
        if (query_files_same_table(&f->items[i], &wanted)) {
            found = &f->items[i];
            parts++;
        }
    if (parts == 1 && !(*ret_path = kymo_asprintf("%s/%s", dir, found->name)))
        return kymo_err_set(err, -ENOMEM, "no memory for a table");
    return 0;
}

/* PARE: encrypted, of which DuckDB says more. */
static bool is_magic(const uint8_t *at)
{
    return !memcmp(at, "PAR1", MAGIC_BYTES) || !memcmp(at, "PARE", MAGIC_BYTES);
}

static int check_ends(int fd, uint64_t size, const char *name, struct kymo_err *err)
{
    uint8_t head[MAGIC_BYTES] = {0}, tail[TAIL_BYTES] = {0};
    int r = size < MAGIC_BYTES + TAIL_BYTES ? -EBADMSG : kymo_file_pread_all(fd, head, sizeof head, 0, name, err);
    if (r == 0)
        r = kymo_file_pread_all(fd, tail, sizeof tail, size - TAIL_BYTES, name, err);
    if (r < 0 && r != -EBADMSG)
        return r;
    uint64_t footer = tail[0] | (uint64_t)tail[1] << 8 | (uint64_t)tail[2] << 16 | (uint64_t)tail[3] << 24;
    if (r < 0 || !is_magic(head) || !is_magic(tail + TAIL_BYTES - MAGIC_BYTES) ||
        footer > size - MAGIC_BYTES - TAIL_BYTES)
        r = kymo_err_set(err, -EBADMSG, "%s: is no Parquet file, or was cut off", name);
    return r;
}

int query_files_check(const char *dir, const char *name, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_asprintf("%s/%s", dir, name);
    uint64_t size;
    if (!path)
        return kymo_err_set(err, -ENOMEM, "no memory for a table");
    int fd = kymo_file_open_regular(path, &size, err);
    if (fd == -EINVAL)
        return kymo_err_set(err, -EBADMSG, "%s: is no regular file", name);
    if (fd < 0)
        return kymo_err_set(err, fd, "%s: %s", name, strerror(-fd));
    int r = check_ends(fd, size, name, err);
    (void)kymo_file_close(fd);
    return r;
}

void query_files_hide_places(char *text)
{
    for (char *at; (at = strstr(text, PLACE));) {
        char *end = at + strlen(PLACE);
        end += strspn(end, "0123456789");
        end += *end == '/';
        memmove(at, end, strlen(end) + 1);
    }
}
