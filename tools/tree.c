#include "tools/tree.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define TEXT_MAX 1024

static void indent(const struct tree *t, unsigned depth)
{
    for (unsigned i = 1; i < depth; i++)
        (void)fputs("  ", t->out);
}

/*
 * JSON's own escapes; in text mode the same ones, so that no byte can forge a line. What is no UTF-8 becomes U+FFFD:
 * JSON has no place for it.
 */
static void escaped(const struct tree *t, const char *s)
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        size_t len = kymo_utf8_sequence(s + i, n - i);
        if (len == 0)
            (void)fputs("\\ufffd", t->out);
        else if (c < 0x20 || c == 0x7f)
            (void)fprintf(t->out, "\\u%04x", c);
        else if (t->json && (c == '"' || c == '\\'))
            (void)fprintf(t->out, "\\%c", c);
        else
            (void)fwrite(s + i, 1, len, t->out);
        i += len ? len : 1;
    }
}

static void lead_json(struct tree *t, const char *key)
{
    if (t->levels[t->depth].filled)
        (void)fputc(',', t->out);
    /* One line per item keeps a large list readable by line tools. */
    if (t->levels[t->depth].list || t->depth <= 1)
        (void)fputc('\n', t->out);
    if (key) {
        (void)fputc('"', t->out);
        escaped(t, key);
        (void)fputs("\":", t->out);
    }
}

static void lead_text(struct tree *t, const char *key, bool one_line)
{
    if (t->levels[t->depth].row) {
        (void)fprintf(t->out, "%s%s=", t->levels[t->depth].filled ? " " : "", key ? key : "");
        return;
    }
    indent(t, t->depth);
    if (key)
        escaped(t, key);
    (void)fputs(key ? ":" : "-", t->out);
    if (one_line)
        (void)fputc(' ', t->out);
}

/* Separator, indentation and key of the next value of this level; one_line: it stands behind its key. */
static void lead(struct tree *t, const char *key, bool one_line)
{
    if (t->json)
        lead_json(t, key);
    else
        lead_text(t, key, one_line);
    t->levels[t->depth].filled = true;
}

static void end_value(const struct tree *t)
{
    if (!t->json && !t->levels[t->depth].row)
        (void)fputc('\n', t->out);
}

static void open_level(struct tree *t, bool list, bool row)
{
    if (++t->depth >= TREE_DEPTH_MAX)
        abort();
    t->levels[t->depth].list = list;
    t->levels[t->depth].row = row;
    t->levels[t->depth].filled = false;
}

void tree_start(struct tree *t, FILE *out, bool json)
{
    *t = (struct tree){.out = out, .json = json};
    if (json)
        (void)fputc('{', out);
    open_level(t, false, false);
}

static void open_value(struct tree *t, const char *key, bool list, bool row)
{
    lead(t, key, row);
    if (t->json)
        (void)fputc(list ? '[' : '{', t->out);
    else if (!row)
        (void)fputc('\n', t->out);
    open_level(t, list, row);
}

void tree_object(struct tree *t, const char *key)
{
    open_value(t, key, false, false);
}

void tree_list(struct tree *t, const char *key)
{
    open_value(t, key, true, false);
}

void tree_row(struct tree *t, const char *key)
{
    open_value(t, key, false, true);
}

void tree_close(struct tree *t)
{
    if (t->json)
        (void)fputc(t->levels[t->depth].list ? ']' : '}', t->out);
    else if (t->levels[t->depth].row)
        (void)fputc('\n', t->out);
    t->depth--;
}

void tree_finish(struct tree *t)
{
    while (t->depth > 1)
        tree_close(t);
    if (t->json)
        (void)fputs("\n}\n", t->out);
    t->depth--;
}

void tree_text(struct tree *t, const char *key, const char *value)
{
    lead(t, key, true);
    if (!value) {
        (void)fputs(t->json ? "null" : "-", t->out);
    } else {
        /* Text needs no quotes, but nothing at all would be hard to see. */
        bool quoted = t->json || !*value;
        if (quoted)
            (void)fputc('"', t->out);
        escaped(t, value);
        if (quoted)
            (void)fputc('"', t->out);
    }
    end_value(t);
}

void tree_textf(struct tree *t, const char *key, const char *fmt, ...)
{
    char value[TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    tree_text(t, key, value);
}

void tree_u64(struct tree *t, const char *key, uint64_t value)
{
    lead(t, key, true);
    (void)fprintf(t->out, "%" PRIu64, value);
    end_value(t);
}

void tree_i64(struct tree *t, const char *key, int64_t value)
{
    lead(t, key, true);
    (void)fprintf(t->out, "%" PRId64, value);
    end_value(t);
}

void tree_double(struct tree *t, const char *key, double value)
{
    /* JSON has no word for the rest. */
    if (t->json && !isfinite(value)) {
        tree_text(t, key, NULL);
        return;
    }
    lead(t, key, true);
    (void)fprintf(t->out, "%.17g", value);
    end_value(t);
}

void tree_bool(struct tree *t, const char *key, bool value)
{
    lead(t, key, true);
    (void)fputs(value ? "true" : "false", t->out);
    end_value(t);
}

void tree_hex(struct tree *t, const char *key, const uint8_t *data, size_t n, size_t max)
{
    lead(t, key, true);
    bool quoted = t->json || n == 0;
    if (quoted)
        (void)fputc('"', t->out);
    for (size_t i = 0; i < n && i < max; i++)
        (void)fprintf(t->out, "%02x", data[i]);
    if (n > max)
        (void)fprintf(t->out, "... (%zu bytes)", n);
    if (quoted)
        (void)fputc('"', t->out);
    end_value(t);
}
