#include "collector/query/query_bad.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "collector/query/query_files.h"

#define BAD_MAX QUERY_FILES_MAX

int query_bad_add(struct query_bad *bad, const char *table, size_t n, const char *why, struct kymo_err *err)
{
    void *p = bad->items;
    int r = kymo_grow(&p, &bad->cap, bad->n + 1, BAD_MAX, sizeof *bad->items);
    if (r < 0)
        return kymo_err_set(err, r, "more than %d tables that cannot be read", BAD_MAX);
    bad->items = p;
    struct query_bad_table b = {kymo_strndup(table, n), kymo_strdup(why)};
    if (b.table && b.why) {
        bad->items[bad->n++] = b;
        return 0;
    }
    kymo_free(b.table);
    kymo_free(b.why);
    return kymo_err_set(err, -ENOMEM, "out of memory");
}

const char *query_bad_why(const struct query_bad *bad, const char *table, size_t n)
{
    for (size_t i = 0; bad && i < bad->n; i++)
        if (strlen(bad->items[i].table) == n && !strncasecmp(bad->items[i].table, table, n))
            return bad->items[i].why;
    return NULL;
}

char *query_bad_take(struct query_bad *bad, const char *table)
{
    for (size_t i = 0; i < bad->n; i++) {
        if (strcasecmp(bad->items[i].table, table) != 0)
            continue;
        char *why = bad->items[i].why;
        kymo_free(bad->items[i].table);
        bad->n--;
        memmove(bad->items + i, bad->items + i + 1, (bad->n - i) * sizeof *bad->items);
        return why;
    }
    return NULL;
}

void query_bad_done(struct query_bad *bad)
{
    for (size_t i = 0; i < bad->n; i++) {
        kymo_free(bad->items[i].table);
        kymo_free(bad->items[i].why);
    }
    kymo_free(bad->items);
    *bad = (struct query_bad){0};
}

void query_bad_say(const char *file, struct kymo_err *why)
{
    char text[sizeof why->text];
    size_t n = strcspn(why->text, "\n");
    memcpy(text, why->text, n);
    text[n] = '\0';
    query_files_hide_places(text);
    (void)kymo_err_set(why, -EBADMSG, "%s: cannot be read: %s", file, text);
}
