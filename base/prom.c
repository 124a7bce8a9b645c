#include "base/prom.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

static void append(struct prom *p, const char *text, size_t n)
{
    if (!p->failed)
        p->failed = kymo_buf_append(p->buf, text, n);
}

static void append_text(struct prom *p, const char *text)
{
    append(p, text, strlen(text));
}

void prom_family(struct prom *p, const char *name, const char *type, const char *help)
{
    p->name = name;
    if (!p->failed)
        p->failed = kymo_buf_printf(p->buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void append_label_value(struct prom *p, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        size_t n = kymo_utf8_sequence(text, left);
        if (n == 0)
            append_text(p, "?");
        else if (*text == '\n')
            append_text(p, "\\n");
        else if (*text == '"' || *text == '\\')
            append(p, (const char[]){'\\', *text}, 2);
        else
            append(p, text, n);
        text += n ? n : 1;
        left -= n ? n : 1;
    }
}

/* Up to the value of the label, its quote included; more labels may follow. */
static void append_suffixed(struct prom *p, const char *suffix, const char *label, const char *label_value)
{
    append_text(p, p->name);
    append_text(p, suffix);
    append_text(p, "{");
    append_text(p, label);
    append_text(p, "=\"");
    append_label_value(p, label_value);
    append_text(p, "\"");
}

static void append_head(struct prom *p, const char *label, const char *label_value)
{
    if (!label) {
        append_text(p, p->name);
        return;
    }
    append_suffixed(p, "", label, label_value);
    append_text(p, "}");
}

void prom_value(struct prom *p, uint64_t value, const char *label, const char *label_value)
{
    append_head(p, label, label_value);
    if (!p->failed)
        p->failed = kymo_buf_printf(p->buf, " %" PRIu64 "\n", value);
}

void prom_seconds(struct prom *p, uint64_t ns, const char *label, const char *label_value)
{
    append_head(p, label, label_value);
    if (!p->failed)
        p->failed = kymo_buf_printf(p->buf, " %" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000, ns % 1000000000);
}

void prom_bucket(struct prom *p, uint64_t value, const char *label, const char *label_value, const char *le)
{
    append_suffixed(p, "_bucket", label, label_value);
    if (!p->failed)
        p->failed = kymo_buf_printf(p->buf, ",le=\"%s\"} %" PRIu64 "\n", le, value);
}

void prom_sum(struct prom *p, uint64_t sum_ns, uint64_t count, const char *label, const char *label_value)
{
    append_suffixed(p, "_sum", label, label_value);
    if (!p->failed)
        p->failed = kymo_buf_printf(p->buf, "} %" PRIu64 ".%09" PRIu64 "\n", sum_ns / 1000000000, sum_ns % 1000000000);
    append_suffixed(p, "_count", label, label_value);
    if (!p->failed)
        p->failed = kymo_buf_printf(p->buf, "} %" PRIu64 "\n", count);
}

void prom_counter(struct prom *p, const char *name, uint64_t value, const char *help)
{
    prom_family(p, name, "counter", help);
    prom_value(p, value, NULL, NULL);
}

void prom_gauge(struct prom *p, const char *name, uint64_t value, const char *help)
{
    prom_family(p, name, "gauge", help);
    prom_value(p, value, NULL, NULL);
}
