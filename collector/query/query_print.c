#include "collector/query/query_print.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/plain.h"

#define NULL_MARK '\xff' /* a held null; no byte of UTF-8, which all values are */

struct query_printer {
    enum query_form form;
    FILE *out;
    size_t columns, rows;
    enum query_type *types;
    char **names;
    size_t *widths;
    struct kymo_buf held; /* table form: NUL-terminated cells */
};

int query_print_new(enum query_form form, FILE *out, struct query_printer **ret)
{
    struct query_printer *p = KYMO_NEW(struct query_printer);
    if (!p)
        return -ENOMEM;
    p->form = form;
    p->out = out;
    kymo_buf_init(&p->held, QUERY_TABLE_TEXT_MAX);
    *ret = p;
    return 0;
}

struct query_printer *query_print_free(struct query_printer *p)
{
    if (!p)
        return NULL;
    for (size_t i = 0; p->names && i < p->columns; i++)
        kymo_free(p->names[i]);
    kymo_free(p->names);
    kymo_free(p->types);
    kymo_free(p->widths);
    kymo_buf_done(&p->held);
    kymo_free(p);
    return NULL;
}

static int check_stream(const struct query_printer *p)
{
    return ferror(p->out) ? -EIO : 0;
}

/* Columns on a terminal, not bytes: continuation bytes of UTF-8 take no room, and escapes take as much as is printed.
 */
static size_t width_of(const char *s)
{
    char one[KYMO_PLAIN_MAX];
    size_t n = 0;
    for (size_t bytes; (bytes = kymo_plain_next(&s, one)) > 0;)
        n += (unsigned char)*one < 0x80 ? bytes : 1;
    return n;
}

static void print_csv_value(FILE *out, const char *s)
{
    if (!*s || strpbrk(s, ",\"\r\n")) {
        (void)fputc('"', out);
        for (; *s; s++) {
            if (*s == '"')
                (void)fputc('"', out);
            (void)fputc(*s, out);
        }
        (void)fputc('"', out);
    } else {
        (void)fputs(s, out);
    }
}

static void print_tsv_value(FILE *out, const char *s)
{
    for (; *s; s++)
        (void)fputc(*s == '\t' || *s == '\n' || *s == '\r' ? ' ' : *s, out);
}

static void print_json_text(FILE *out, const char *s)
{
    (void)fputc('"', out);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            (void)fprintf(out, "\\%c", c);
        else if (c < 0x20)
            (void)fprintf(out, "\\u%04x", c);
        else
            (void)fputc(c, out);
    }
    (void)fputc('"', out);
}

static bool is_json_number(const char *s)
{
    return strspn(s, "-+.eE0123456789") == strlen(s);
}

/* Lists of whole numbers and nulls read the same in JSON; lists of anything else stay text. */
static bool is_json_list(const char *s)
{
    return strspn(s, "[], -0123456789nul") == strlen(s);
}

static bool is_bare(enum query_type type, const char *s)
{
    if (type == QUERY_LIST)
        return is_json_list(s);
    return type == QUERY_BOOL || (type == QUERY_NUMBER && is_json_number(s));
}

static int begin(void *ctx, size_t columns, const char *const *names, const enum query_type *types)
{
    struct query_printer *p = ctx;
    p->names = KYMO_NEW_ARRAY(char *, columns);
    p->types = KYMO_NEW_ARRAY(enum query_type, columns);
    p->widths = KYMO_NEW_ARRAY(size_t, columns);
    if (!p->names || !p->types || !p->widths)
        return -ENOMEM;
    p->columns = columns;
    for (size_t i = 0; i < columns; i++) {
        p->types[i] = types[i];
        p->names[i] = kymo_strdup(names[i]);
        if (!p->names[i])
            return -ENOMEM;
        p->widths[i] = width_of(names[i]);
        if (p->form == QUERY_FORM_CSV || p->form == QUERY_FORM_TSV) {
            if (i > 0)
                (void)fputc(p->form == QUERY_FORM_CSV ? ',' : '\t', p->out);
            (p->form == QUERY_FORM_CSV ? print_csv_value : print_tsv_value)(p->out, names[i]);
        }
    }
    if (p->form == QUERY_FORM_CSV || p->form == QUERY_FORM_TSV)
        (void)fputc('\n', p->out);
    return check_stream(p);
}

static int hold_row(struct query_printer *p, size_t columns, const char *const *values)
{
    static const char null_cell[] = {NULL_MARK, '\0'};
    for (size_t i = 0; i < columns; i++) {
        const char *s = values[i] ? values[i] : null_cell;
        size_t width = width_of(s);
        if (values[i] && width > p->widths[i])
            p->widths[i] = width;
        int r = kymo_buf_append(&p->held, s, strlen(s) + 1);
        if (r < 0)
            return r;
    }
    return 0;
}

static void print_json_row(const struct query_printer *p, size_t columns, const char *const *values)
{
    (void)fputc('{', p->out);
    for (size_t i = 0; i < columns; i++) {
        if (i > 0)
            (void)fputc(',', p->out);
        print_json_text(p->out, p->names[i]);
        (void)fputc(':', p->out);
        if (!values[i])
            (void)fputs("null", p->out);
        else if (is_bare(p->types[i], values[i]))
            (void)fputs(values[i], p->out);
        else
            print_json_text(p->out, values[i]);
    }
    (void)fputs("}\n", p->out);
}

static void print_separated_row(const struct query_printer *p, size_t columns, const char *const *values)
{
    bool csv = p->form == QUERY_FORM_CSV;
    for (size_t i = 0; i < columns; i++) {
        if (i > 0)
            (void)fputc(csv ? ',' : '\t', p->out);
        if (values[i])
            (csv ? print_csv_value : print_tsv_value)(p->out, values[i]);
    }
    (void)fputc('\n', p->out);
}

static int row(void *ctx, size_t columns, const char *const *values)
{
    struct query_printer *p = ctx;
    p->rows++;
    if (p->form == QUERY_FORM_TABLE)
        return hold_row(p, columns, values);
    if (p->form == QUERY_FORM_JSON)
        print_json_row(p, columns, values);
    else
        print_separated_row(p, columns, values);
    return check_stream(p);
}

struct query_sink query_print_sink(struct query_printer *p)
{
    return (struct query_sink){.begin = begin, .row = row, .ctx = p};
}

/* Numbers to the right, text to the left; no blanks at the end of a line. */
static void print_cell(const struct query_printer *p, size_t column, const char *s)
{
    bool null = s[0] == NULL_MARK;
    size_t pad = p->widths[column] - (null ? 0 : width_of(s));
    bool right = p->types[column] == QUERY_NUMBER;
    bool last = column + 1 == p->columns;
    if (right)
        (void)fprintf(p->out, "%*s", (int)pad, "");
    if (!null)
        kymo_plain_print(p->out, s);
    if (!last)
        (void)fprintf(p->out, "%*s", (int)(right ? 2 : pad + 2), "");
}

static void print_held(const struct query_printer *p)
{
    for (size_t i = 0; i < p->columns; i++)
        print_cell(p, i, p->names[i]);
    (void)fputc('\n', p->out);
    for (size_t i = 0; i < p->columns; i++) {
        for (size_t k = 0; k < p->widths[i]; k++)
            (void)fputc('-', p->out);
        (void)fputs(i + 1 < p->columns ? "  " : "\n", p->out);
    }
    const char *s = (const char *)p->held.data;
    for (size_t r = 0; r < p->rows; r++) {
        for (size_t i = 0; i < p->columns; i++) {
            print_cell(p, i, s);
            s += strlen(s) + 1;
        }
        (void)fputc('\n', p->out);
    }
}

int query_print_finish(struct query_printer *p)
{
    if (p->form == QUERY_FORM_TABLE && p->columns)
        print_held(p);
    if (fflush(p->out) != 0)
        return -EIO;
    return check_stream(p);
}
