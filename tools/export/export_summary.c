#include "tools/export/export_summary.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tools/export/summary_parts.h"

/* A text under construction; the first error sticks. */
struct text {
    struct kymo_buf *buf;
    int error;
};

#define PUT(t, ...)                                                                                                    \
    do {                                                                                                               \
        if ((t)->error == 0)                                                                                           \
            (t)->error = kymo_buf_printf((t)->buf, __VA_ARGS__);                                                       \
    } while (0)

static void put_bytes(struct text *t, const char *s, size_t n)
{
    if (t->error == 0)
        t->error = kymo_buf_append(t->buf, s, n);
}

static void json_string(struct text *t, const char *s)
{
    PUT(t, "\"");
    for (size_t n = strlen(s), len; n > 0; s += len, n -= len) {
        len = kymo_utf8_sequence(s, n);
        if (len == 0) {
            len = 1;
            PUT(t, "\\ufffd");
        } else if (*s == '"' || *s == '\\') {
            PUT(t, "\\%c", *s);
        } else if ((unsigned char)*s < 0x20) {
            PUT(t, "\\u%04x", (unsigned char)*s);
        } else {
            put_bytes(t, s, len);
        }
    }
    PUT(t, "\"");
}

/* The shortest decimal that is the stored number; JSON has no infinities. */
static void put_real(struct text *t, double v, bool single)
{
    char out[40];
    if (!isfinite(v)) {
        PUT(t, "null");
        return;
    }
    for (int precision = single ? 6 : 15; precision <= 17; precision++) {
        (void)snprintf(out, sizeof out, "%.*g", precision, v);
        if (single ? strtof(out, NULL) == (float)v : strtod(out, NULL) == v)
            break;
    }
    PUT(t, "%s", out);
}

static void json_value(struct text *t, const struct summary_value *v)
{
    switch (v->kind) {
    case QUERY_VALUE_NULL:
        PUT(t, "null");
        return;
    case QUERY_VALUE_BOOL:
        PUT(t, "%s", v->integer ? "true" : "false");
        return;
    case QUERY_VALUE_INT:
        PUT(t, "%" PRId64, v->integer);
        return;
    case QUERY_VALUE_FLOAT:
    case QUERY_VALUE_DOUBLE:
        put_real(t, v->real, v->kind == QUERY_VALUE_FLOAT);
        return;
    case QUERY_VALUE_LIST:
        PUT(t, "%s", v->text);
        return;
    default:
        json_string(t, v->text);
    }
}

static void json_row(struct text *t, const struct summary_part *part, size_t row, const char *indent)
{
    PUT(t, "{");
    for (size_t i = 0; i < part->column_count; i++) {
        PUT(t, "%s%s", i ? "," : "", *indent ? indent : i ? " " : "");
        json_string(t, part->columns[i].name);
        PUT(t, ": ");
        json_value(t, &part->values[row * part->column_count + i]);
    }
    PUT(t, "%s}", *indent ? "\n  " : "");
}

static void json_part(struct text *t, const struct summary_part *part)
{
    PUT(t, ",\n  \"%s\": ", part->key);
    if (part->single && part->row_count) {
        json_row(t, part, 0, "\n    ");
    } else if (part->single) {
        PUT(t, "null");
    } else {
        PUT(t, "[");
        for (size_t r = 0; r < part->row_count; r++) {
            PUT(t, "%s\n    ", r ? "," : "");
            json_row(t, part, r, "");
        }
        PUT(t, "%s]", part->row_count ? "\n  " : "");
    }
}

static void json_units(struct text *t, const struct summary_part *summary)
{
    bool first = true;
    PUT(t, ",\n  \"units\": {");
    for (size_t i = 0; i < summary->column_count; i++)
        if (*summary->columns[i].unit) {
            PUT(t, "%s\n    \"%s\": \"%s\"", first ? "" : ",", summary->columns[i].name, summary->columns[i].unit);
            first = false;
        }
    PUT(t, "\n  }");
}

/* The columns of one mark, with the reason. */
static void json_marks(struct text *t, const struct summary_part *summary, const char *key, enum bounds_mark mark)
{
    bool first = true;
    PUT(t, ",\n  \"%s\": {", key);
    for (size_t i = 0; i < summary->column_count; i++)
        if (summary->columns[i].mark == mark) {
            PUT(t, "%s\n    \"%s\": ", first ? "" : ",", summary->columns[i].name);
            json_string(t, summary->columns[i].doubt);
            first = false;
        }
    PUT(t, "%s}", first ? "" : "\n  ");
}

int export_summary_json(const struct export_profile *p, struct kymo_buf *out, struct kymo_err *err)
{
    struct summary_parts parts;
    struct text t = {.buf = out};
    int r = summary_parts_read(&parts, p, err);
    if (r == 0) {
        PUT(&t, "{\n  \"kymo_summary_version\": %d", EXPORT_SUMMARY_VERSION);
        for (size_t i = 0; i < parts.count; i++)
            json_part(&t, &parts.parts[i]);
        const struct summary_part *summary = summary_parts_find(&parts, "summary");
        json_units(&t, summary);
        json_marks(&t, summary, "lower_bounds", BOUNDS_LOWER);
        json_marks(&t, summary, "uncertain", BOUNDS_UNCERTAIN);
        PUT(&t, "\n}\n");
        r = t.error < 0 ? kymo_err_set(err, t.error, "the summary: %s", strerror(-t.error)) : 0;
    }
    summary_parts_done(&parts);
    return r;
}

struct scale {
    double factor;
    const char *name;
};

/* Picks the largest unit that leaves at least one before the point. */
static void scaled(char *out, size_t n, double v, const struct scale *scales, double base, const char *base_name)
{
    for (const struct scale *s = scales; s->name; s++)
        if (fabs(v) >= s->factor) {
            (void)snprintf(out, n, "%.4g %s", v / s->factor, s->name);
            return;
        }
    (void)snprintf(out, n, "%.4g %s", v / base, base_name);
}

static const struct scale seconds[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {0, NULL}};
static const struct scale counts[] = {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {0, NULL}};
static const struct scale bytes[] = {{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {0, NULL}};

/* Digits in groups of three. */
static void grouped(char *out, size_t n, int64_t v)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%" PRId64, v);
    size_t at = 0;
    for (int i = 0; i < len && at + 2 < n; i++) {
        out[at++] = digits[i];
        if (digits[i] != '-' && i + 1 < len && (len - i - 1) % 3 == 0)
            out[at++] = ',';
    }
    out[at] = 0;
}

static void show_number(char *out, size_t n, const struct summary_value *v, const char *unit)
{
    bool whole = v->kind == QUERY_VALUE_INT;
    double real = whole ? (double)v->integer : v->real;
    char plain[48], other[48];
    grouped(plain, sizeof plain, whole ? v->integer : (int64_t)0);
    if (!strcmp(unit, "seconds")) {
        scaled(out, n, real, seconds, 1e-9, "ns");
    } else if (!strcmp(unit, "nanoseconds")) {
        scaled(other, sizeof other, real / 1e9, seconds, 1e-9, "ns");
        if (real >= 1000)
            (void)snprintf(out, n, "%s ns (%s)", plain, other);
        else
            (void)snprintf(out, n, "%s ns", plain);
    } else if (!strcmp(unit, "percent")) {
        (void)snprintf(out, n, "%.2f %%", real);
    } else if (!strcmp(unit, "bytes")) {
        scaled(other, sizeof other, real, bytes, 1, "bytes");
        if (whole && real >= 1024)
            (void)snprintf(out, n, "%s (%s bytes)", other, plain);
        else
            (void)snprintf(out, n, "%s", other);
    } else if (!strcmp(unit, "bytes_per_second")) {
        scaled(other, sizeof other, real, counts, 1, "");
        (void)snprintf(out, n, "%sB/s", other);
    } else if (!strcmp(unit, "flops")) {
        scaled(other, sizeof other, real, counts, 1, "");
        (void)snprintf(out, n, "%s%s", real >= 1e6 ? other : plain, real >= 1e6 ? "FLOP" : " FLOP");
    } else if (whole) {
        (void)snprintf(out, n, "%s%s%s", plain, *unit ? " " : "", unit);
    } else {
        (void)snprintf(out, n, "%.6g%s%s", real, *unit ? " " : "", unit);
    }
}

static void show(char *out, size_t n, const struct summary_value *v, const char *unit)
{
    if (v->kind == QUERY_VALUE_NULL)
        (void)snprintf(out, n, "-");
    else if (v->kind == QUERY_VALUE_BOOL)
        (void)snprintf(out, n, "%s", v->integer ? "yes" : "no");
    else if (v->text)
        (void)snprintf(out, n, "%s", v->text);
    else
        show_number(out, n, v, unit);
}

/* In a table the column's name says that it counts nanoseconds. */
static const char *unit_in_rows(const struct summary_column *c)
{
    return strcmp(c->unit, "nanoseconds") ? c->unit : "";
}

/* What came from a file goes to a terminal: its control characters do not. */
static void put_visible(struct text *t, const char *s)
{
    for (; *s; s++)
        PUT(t, "%c", (unsigned char)*s < 0x20 || *s == 0x7f ? ' ' : *s);
}

static const char *sign_of(enum bounds_mark mark)
{
    return mark == BOUNDS_LOWER ? ">= " : mark == BOUNDS_UNCERTAIN ? "~ " : "";
}

static void text_single(struct text *t, const struct summary_part *part)
{
    char value[1024];
    for (size_t i = 0; i < part->column_count; i++) {
        const struct summary_column *c = &part->columns[i];
        if (part->values[i].kind == QUERY_VALUE_NULL || (part->values[i].text && !*part->values[i].text))
            continue;
        show(value, sizeof value, &part->values[i], c->unit);
        PUT(t, "  %-44s %s", c->name, sign_of(c->mark));
        put_visible(t, value);
        PUT(t, "\n");
    }
}

static size_t width_of(const struct summary_part *part, size_t column)
{
    char value[1024];
    size_t width = strlen(part->columns[column].name);
    for (size_t r = 0; r < part->row_count; r++) {
        show(value, sizeof value, &part->values[r * part->column_count + column], unit_in_rows(&part->columns[column]));
        width = strlen(value) > width ? strlen(value) : width;
    }
    return width;
}

static void text_rows(struct text *t, const struct summary_part *part)
{
    char value[1024];
    size_t *widths KYMO_FREE = KYMO_NEW_ARRAY(size_t, part->column_count);
    if (!widths)
        t->error = -ENOMEM;
    for (size_t i = 0; widths && i < part->column_count; i++)
        widths[i] = i + 1 == part->column_count && !part->columns[i].number ? 0 : width_of(part, i);
    for (size_t r = 0; widths && r <= part->row_count; r++) {
        PUT(t, " ");
        for (size_t i = 0; i < part->column_count; i++) {
            const struct summary_column *c = &part->columns[i];
            if (r == 0)
                (void)snprintf(value, sizeof value, "%s", c->name);
            else
                show(value, sizeof value, &part->values[(r - 1) * part->column_count + i], unit_in_rows(c));
            size_t pad = widths[i] > strlen(value) ? widths[i] - strlen(value) : 0;
            PUT(t, " %*s", c->number ? (int)pad : 0, "");
            put_visible(t, value);
            PUT(t, "%*s", c->number || i + 1 == part->column_count ? 0 : (int)pad, "");
        }
        PUT(t, "\n");
    }
}

/* Whether an earlier column has the same mark for the same reason. */
static bool told(const struct summary_part *summary, size_t column)
{
    const struct summary_column *c = &summary->columns[column];
    for (size_t i = 0; i < column; i++)
        if (summary->columns[i].mark == c->mark && !strcmp(summary->columns[i].doubt, c->doubt))
            return true;
    return false;
}

static void text_doubts(struct text *t, const struct summary_part *summary, enum bounds_mark mark, const char *title)
{
    bool first = true;
    for (size_t i = 0; i < summary->column_count; i++) {
        const struct summary_column *c = &summary->columns[i];
        if (c->mark != mark || told(summary, i))
            continue;
        PUT(t, "%s  %s", first ? title : "", sign_of(mark));
        put_visible(t, c->doubt);
        PUT(t, "\n");
        first = false;
    }
}

int export_summary_text(const struct export_profile *p, struct kymo_buf *out, struct kymo_err *err)
{
    struct summary_parts parts;
    struct text t = {.buf = out};
    int r = summary_parts_read(&parts, p, err);
    bool first = true;
    for (size_t i = 0; r == 0 && i < parts.count; i++) {
        const struct summary_part *part = &parts.parts[i];
        if (!part->row_count)
            continue;
        PUT(&t, "%s%s\n", first ? "" : "\n", part->title);
        first = false;
        (part->single ? text_single : text_rows)(&t, part);
        if (strcmp(part->key, "summary") != 0)
            continue;
        text_doubts(&t, part, BOUNDS_LOWER, "\nLower bounds (>=)\n");
        text_doubts(&t, part, BOUNDS_UNCERTAIN, "\nToo low or too high (~)\n");
    }
    if (r == 0 && t.error < 0)
        r = kymo_err_set(err, t.error, "the summary: %s", strerror(-t.error));
    summary_parts_done(&parts);
    return r;
}
