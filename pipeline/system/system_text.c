#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "pipeline/system/system_impl.h"

#define NUMBER_DIGITS_MAX 15 /* a double holds them all */

void system_text_start(struct system_text *t)
{
    if (!t->buf.max)
        kymo_buf_init(&t->buf, SYSTEM_TEXT_MAX);
    kymo_buf_reset(&t->buf);
    t->failed = false;
}

static void put(struct system_text *t, const void *data, size_t n)
{
    if (!t->failed && kymo_buf_append(&t->buf, data, n) < 0)
        t->failed = true;
}

static void put_escaped(struct system_text *t, const char *text)
{
    for (size_t left = strlen(text); left;) {
        size_t n = kymo_utf8_sequence(text, left);
        char escape[8];
        if (n > 1 || (n == 1 && (unsigned char)*text >= 0x20 && *text != '"' && *text != '\\')) {
            put(t, text, n);
        } else if (n == 1) {
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*text);
            put(t, escape, strlen(escape));
        } else {
            put(t, "?", 1);
            n = 1;
        }
        text += n;
        left -= n;
    }
}

/* As JSON writes integers, and short enough for every reader. */
static bool is_number(const char *text)
{
    const char *digits = text + (*text == '-');
    size_t n = strspn(digits, "0123456789");
    return n > 0 && !digits[n] && n <= NUMBER_DIGITS_MAX && (*digits != '0' || (n == 1 && digits == text));
}

void system_text_member(struct system_text *t, const char *prefix, const char *key, const char *value)
{
    const char *quote = is_number(value) ? "" : "\"";
    if (t->buf.len)
        put(t, ",", 1);
    put(t, "\"", 1);
    put_escaped(t, prefix);
    put_escaped(t, key);
    put(t, "\":", 2);
    put(t, quote, strlen(quote));
    put_escaped(t, value);
    put(t, quote, strlen(quote));
}

void system_text_line(struct system_text *t, const char *fmt, ...)
{
    char line[TRACE_JSON_ID_MAX + 32];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    for (char *p = line; n > 0 && *p; p++)
        if (*p == '\n')
            *p = ' ';
    put(t, line, strlen(line));
    put(t, "\n", 1);
}

int system_row_add(struct system_job *j, struct system_row *row, const char *name, const struct system_text *flows,
                   const struct system_text *json, struct kymo_err *err)
{
    struct kymo_buf all;
    kymo_buf_init(&all, 3u * SYSTEM_TEXT_MAX);
    row->name_len = name ? (uint32_t)strlen(name) : 0;
    row->flows_len = (uint32_t)flows->buf.len;
    row->json_len = (uint32_t)json->buf.len;
    int r = flows->failed || json->failed ? -ENOMEM : kymo_buf_append(&all, name ? name : "", row->name_len);
    if (r == 0)
        r = kymo_buf_append(&all, flows->buf.data, flows->buf.len);
    if (r == 0)
        r = kymo_buf_append(&all, json->buf.data, json->buf.len);
    if (r < 0)
        r = kymo_err_set(err, r, "no memory for the texts of an event");
    else
        r = text_store_put(j->texts, all.data, all.len, &row->text, err);
    kymo_buf_done(&all);
    return r < 0 ? r : sort_spill_add(j->rows, row->start, row, err);
}

int system_partial_add(struct system_job *j, const struct system_partial *p, struct kymo_err *err)
{
    j->rings[p->ring].partial++;
    return sort_spill_add(j->partials, p->ts, p, err);
}
