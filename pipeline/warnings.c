#include "pipeline/warnings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/parquet/parquet_writer.h"

#define LIST_MAX 600 /* bytes of items that are listed */

struct entry {
    const char *category;
    char *text;
    char *head, *items; /* of a list; else NULL */
    size_t count, listed;
};

struct warnings {
    struct entry *entries;
    size_t count, cap, dropped;
};

struct warnings *warnings_new(void)
{
    return KYMO_NEW(struct warnings);
}

struct warnings *warnings_free(struct warnings *w)
{
    if (!w)
        return NULL;
    for (size_t i = 0; i < w->count; i++) {
        kymo_free(w->entries[i].text);
        kymo_free(w->entries[i].head);
        kymo_free(w->entries[i].items);
    }
    kymo_free(w->entries);
    kymo_free(w);
    return NULL;
}

static int add_text(struct warnings *w, const char *category, const char *text)
{
    void *p = w->entries;
    int r = kymo_grow(&p, &w->cap, w->count + 1, WARNINGS_MAX, sizeof *w->entries);
    w->entries = p;
    if (r < 0)
        return r;
    char *copy = kymo_strdup(text);
    if (!copy)
        return -ENOMEM;
    w->entries[w->count++] = (struct entry){.category = category, .text = copy};
    return 0;
}

void warnings_add(struct warnings *w, const char *category, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < w->count; i++)
        if (!strcmp(w->entries[i].text, text))
            return;
    if (add_text(w, category, text) < 0)
        w->dropped++;
}

static struct entry *find_list(struct warnings *w, const char *category, const char *head)
{
    for (size_t i = 0; i < w->count; i++) {
        struct entry *e = &w->entries[i];
        if (e->head && !strcmp(e->category, category) && !strcmp(e->head, head))
            return e;
    }
    return NULL;
}

static int add_item(struct entry *e, const char *item)
{
    e->count++;
    if (!e->items || strlen(e->items) + strlen(item) < LIST_MAX) {
        char *items = e->items ? kymo_asprintf("%s; %s", e->items, item) : kymo_strdup(item);
        if (!items)
            return -ENOMEM;
        kymo_free(e->items);
        e->items = items;
        e->listed++;
    }
    char more[48] = "", number[32] = "";
    if (e->count > 1)
        (void)snprintf(number, sizeof number, "%zu: ", e->count);
    if (e->listed < e->count)
        (void)snprintf(more, sizeof more, "; and %zu more", e->count - e->listed);
    char *text = kymo_asprintf("%s: %s%s%s", e->head, number, e->items, more);
    if (!text)
        return -ENOMEM;
    kymo_free(e->text);
    e->text = text;
    return 0;
}

void warnings_list(struct warnings *w, const char *category, const char *item, const char *fmt, ...)
{
    char head[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    struct entry *e = find_list(w, category, head);
    if (!e) {
        if (add_text(w, category, head) < 0) {
            w->dropped++;
            return;
        }
        e = &w->entries[w->count - 1];
        e->head = kymo_strdup(head);
    }
    if (!e->head || add_item(e, item) < 0)
        w->dropped++;
}

size_t warnings_count(const struct warnings *w)
{
    return w->count;
}

const char *warnings_text(const struct warnings *w, size_t i)
{
    return w->entries[i].text;
}

const char *warnings_category(const struct warnings *w, size_t i)
{
    return w->entries[i].category;
}

bool warnings_serious(const struct warnings *w, size_t i)
{
    static const char *const categories[] = {"Missing NEFF",     "Wrong NEFF",      "Unreadable NEFF",
                                             "Manifest",         "Lost records",    "Missing timeline",
                                             "Failed execution", "Unknown records", "Timestamps"};
    for (size_t k = 0; k < sizeof categories / sizeof *categories; k++)
        if (!strcmp(w->entries[i].category, categories[k]))
            return true;
    return false;
}

static int write_row(struct parquet_row *row, const char *category, const char *text, struct kymo_err *err)
{
    parquet_row_string(row, KYMO_WARNING_MESSAGE, text);
    parquet_row_string(row, KYMO_WARNING_CATEGORY, category);
    return parquet_row_end(row, err);
}

int warnings_write(const struct warnings *w, const char *dir, struct kymo_err *err)
{
    struct parquet_row *row;
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_WARNING), NULL, &row, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < w->count && r == 0; i++)
        r = write_row(row, w->entries[i].category, w->entries[i].text, err);
    if (w->dropped && r == 0) {
        char text[96];
        (void)snprintf(text, sizeof text, "%zu more warnings are not listed", w->dropped);
        r = write_row(row, "Processing", text, err);
    }
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}
