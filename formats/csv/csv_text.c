#include "formats/csv/csv_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void csv_text_init(struct csv_text *c, size_t max)
{
    *c = (struct csv_text){0};
    kymo_buf_init(&c->buf, max);
}

void csv_text_done(struct csv_text *c)
{
    kymo_buf_done(&c->buf);
}

void csv_text_reset(struct csv_text *c)
{
    kymo_buf_reset(&c->buf);
    c->fields = 0;
    c->error = 0;
}

/* Room for n bytes behind the comma that separates this field from the last; NULL after an error. */
static uint8_t *begin_field(struct csv_text *c, size_t n)
{
    if (c->error < 0)
        return NULL;
    c->error = kymo_buf_reserve(&c->buf, n + 1);
    if (c->error < 0)
        return NULL;
    if (c->fields++ > 0)
        c->buf.data[c->buf.len++] = ',';
    return c->buf.data + c->buf.len;
}

static void put(struct csv_text *c, const void *bytes, size_t n)
{
    uint8_t *out = begin_field(c, n);
    if (!out)
        return;
    memcpy(out, bytes, n);
    c->buf.len += n;
}

void csv_text_null(struct csv_text *c)
{
    (void)begin_field(c, 0);
}

static bool is_plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] == ',' || s[i] == '"' || s[i] == '\r' || s[i] == '\n')
            return false;
    return n > 0;
}

static size_t count_quotes(const char *s, size_t n)
{
    size_t quotes = 0;
    for (size_t i = 0; i < n; i++)
        quotes += s[i] == '"';
    return quotes;
}

void csv_text_string(struct csv_text *c, const char *s, size_t n)
{
    if (is_plain(s, n)) {
        put(c, s, n);
        return;
    }
    uint8_t *out = begin_field(c, n + count_quotes(s, n) + 2);
    if (!out)
        return;
    const uint8_t *begin = out;
    *out++ = '"';
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '"')
            *out++ = '"';
        *out++ = (uint8_t)s[i];
    }
    *out++ = '"';
    c->buf.len += (size_t)(out - begin);
}

void csv_text_int(struct csv_text *c, int64_t v)
{
    char digits[20];
    size_t at = sizeof digits;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do
        digits[--at] = (char)('0' + u % 10);
    while ((u /= 10) != 0);
    if (v < 0)
        digits[--at] = '-';
    put(c, digits + at, sizeof digits - at);
}

/* Most numbers of this kind are rates and counts without a fraction, whose digits are found much faster. */
static bool put_whole(struct csv_text *c, double v)
{
    if (!(v > -1e15 && v < 1e15) || v != (double)(int64_t)v || (v == 0 && signbit(v)))
        return false;
    csv_text_int(c, (int64_t)v);
    return true;
}

void csv_text_float(struct csv_text *c, float v)
{
    char text[32];
    if (put_whole(c, (double)v))
        return;
    for (int precision = 6; precision <= 9; precision++) {
        (void)snprintf(text, sizeof text, "%.*g", precision, (double)v);
        if (strtof(text, NULL) == v)
            break;
    }
    put(c, text, strlen(text));
}

void csv_text_double(struct csv_text *c, double v)
{
    char text[32];
    if (put_whole(c, v))
        return;
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(text, sizeof text, "%.*g", precision, v);
        if (strtod(text, NULL) == v)
            break;
    }
    put(c, text, strlen(text));
}

void csv_text_bool(struct csv_text *c, bool v)
{
    put(c, v ? "true" : "false", v ? 4 : 5);
}

int csv_text_end(struct csv_text *c)
{
    if (c->error == 0)
        c->error = kymo_buf_append(&c->buf, "\r\n", 2);
    c->fields = 0;
    return c->error;
}
