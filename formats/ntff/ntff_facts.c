#include "formats/ntff/ntff_facts.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

/* What is visited of a sample at most: a hostile one must not cost more than it is worth. */
#define VISITED_MAX (1u << 22)

enum message {
    NONE = -1,
#define MESSAGE(name) name,
#define FIELD(message, number, wire, name, mark, child)
#include "formats/ntff/ntff_facts.def"
#undef MESSAGE
#undef FIELD
    MESSAGES,
};

static const struct row {
    enum message message;
    uint32_t number;
    enum pb_wire wire;
    const char *name, *mark;
    enum message child;
} rows[] = {
#define MESSAGE(name)
#define FIELD(message, number, wire, name, mark, child) {message, number, wire, #name, mark, child},
#include "formats/ntff/ntff_facts.def"
#undef MESSAGE
#undef FIELD
};

static const char *const message_names[MESSAGES] = {
#define MESSAGE(name) [name] = #name,
#define FIELD(message, number, wire, name, mark, child)
#include "formats/ntff/ntff_facts.def"
#undef MESSAGE
#undef FIELD
};

#define ROWS (sizeof rows / sizeof *rows)

struct ntff_facts {
    struct ntff_fact facts[ROWS];
    struct ntff_fact_other others[NTFF_FACTS_OTHERS_MAX];
    size_t n_others;
    uint32_t nodes_number;
    const uint8_t *start;
    size_t visited;
};

static const struct row *find_row(enum message message, uint32_t number)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].message == message && rows[i].number == number)
            return &rows[i];
    return NULL;
}

static void note_other(struct ntff_facts *f, enum message message, const struct pb_field *field, size_t offset)
{
    for (size_t i = 0; i < f->n_others; i++) {
        struct ntff_fact_other *o = &f->others[i];
        if (o->message == message_names[message] && o->number == field->number && o->wire == field->wire) {
            o->seen++;
            return;
        }
    }
    if (f->n_others < NTFF_FACTS_OTHERS_MAX)
        f->others[f->n_others++] =
            (struct ntff_fact_other){message_names[message], field->number, field->wire, 1, offset};
}

static bool note_fact(struct ntff_fact *fact, const struct pb_field *field, size_t offset)
{
    if (field->wire == fact->wire) {
        fact->confirmed++;
        return true;
    }
    if (fact->contradicted++ == 0) {
        fact->other_wire = field->wire;
        fact->other_offset = offset;
    }
    return false;
}

/* Recursion ends with the facts' tree: no message there contains itself. */
static void visit(struct ntff_facts *f, enum message message, const uint8_t *data, size_t n)
{
    struct pb_cursor c = {.data = data, .size = n};
    struct pb_field field;
    const char *cause;
    while (f->visited < VISITED_MAX && pb_next(&c, &field, &cause) > 0) {
        size_t offset = (size_t)(data - f->start) + field.at;
        f->visited++;
        const struct row *row = find_row(message, field.number);
        enum message child = NONE;
        if (row && note_fact(&f->facts[row - rows], &field, offset))
            child = row->child;
        else if (!row && message == ntff_info && field.number == f->nodes_number && field.wire == PB_LEN)
            child = neff_node_info;
        else if (!row)
            note_other(f, message, &field, offset);
        if (child != NONE)
            visit(f, child, field.data, field.len);
    }
}

/* Does a value read as neff_node_info: every number known with its wire type, and a graph list or a latency among them?
 */
static bool looks_like_node(const uint8_t *data, size_t n)
{
    struct pb_cursor c = {.data = data, .size = n};
    struct pb_field field;
    const char *cause;
    bool telling = false;
    int r;
    while ((r = pb_next(&c, &field, &cause)) > 0) {
        const struct row *row = find_row(neff_node_info, field.number);
        if (row && row->wire != field.wire)
            return false;
        telling = telling || (row && (row->child != NONE || row->wire == PB_FIXED64));
    }
    return r == 0 && telling;
}

static uint32_t find_nodes(const uint8_t *data, size_t n)
{
    struct pb_cursor c = {.data = data, .size = n};
    struct pb_field field;
    const char *cause;
    while (pb_next(&c, &field, &cause) > 0)
        if (field.number < NTFF_FACTS_NODES_BELOW && field.wire == PB_LEN && looks_like_node(field.data, field.len))
            return field.number;
    return 0;
}

struct ntff_facts *ntff_facts_check(const uint8_t *data, size_t n)
{
    struct ntff_facts *f = KYMO_NEW(struct ntff_facts);
    if (!f)
        return NULL;
    for (size_t i = 0; i < ROWS; i++)
        f->facts[i] = (struct ntff_fact){.message = message_names[rows[i].message],
                                         .name = rows[i].name,
                                         .mark = rows[i].mark,
                                         .number = rows[i].number,
                                         .wire = rows[i].wire};
    f->start = data;
    f->nodes_number = find_nodes(data, n);
    visit(f, ntff_info, data, n);
    return f;
}

struct ntff_facts *ntff_facts_free(struct ntff_facts *f)
{
    kymo_free(f);
    return NULL;
}

void ntff_facts_freep(struct ntff_facts **f)
{
    *f = ntff_facts_free(*f);
}

size_t ntff_facts_count(const struct ntff_facts *f)
{
    (void)f;
    return ROWS;
}

const struct ntff_fact *ntff_facts_get(const struct ntff_facts *f, size_t i)
{
    return &f->facts[i];
}

size_t ntff_facts_other_count(const struct ntff_facts *f)
{
    return f->n_others;
}

const struct ntff_fact_other *ntff_facts_other(const struct ntff_facts *f, size_t i)
{
    return &f->others[i];
}

uint32_t ntff_facts_nodes_number(const struct ntff_facts *f)
{
    return f->nodes_number;
}
