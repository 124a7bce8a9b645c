/* The schema against the counts that the vendor's page for 7.4.0 has, and against itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/schema/schema.h"

struct counts {
    size_t tables, fields, required, types[KYMO_TYPE_LIST_STRING + 1];
};

static struct counts count(bool own)
{
    struct counts n = {0};

    for (unsigned t = 0; t < KYMO_T_MAX; t++) {
        const struct kymo_table *table = kymo_schema_table((enum kymo_table_id)t);
        n.tables += table->own == own;
        for (size_t c = 0; c < table->column_count; c++) {
            const struct kymo_column *column = &table->columns[c];
            if (column->own != own)
                continue;
            n.fields++;
            n.required += column->required;
            n.types[column->type]++;
        }
    }
    return n;
}

/*
 * The page has 656 fields in 52 tables, 308 of them required. Three of the tables, with 8 fields, 6 of those required,
 * are made at query time and never stored: one int64 time, two int64 keys, a double, an enum and a plain string, two
 * arrays.
 */
static void vendor_counts(void **state)
{
    (void)state;
    struct counts n = count(false);

    assert_int_equal(n.tables, 52 - 3);
    assert_int_equal(n.fields, 656 - 8);
    assert_int_equal(n.required, 308 - 6);
    assert_int_equal(n.types[KYMO_TYPE_INT64], 347 - 3);
    assert_int_equal(n.types[KYMO_TYPE_INT32], 22);
    assert_int_equal(n.types[KYMO_TYPE_FLOAT], 94);
    assert_int_equal(n.types[KYMO_TYPE_DOUBLE], 2 - 1);
    assert_int_equal(n.types[KYMO_TYPE_BOOL], 5);
    assert_int_equal(n.types[KYMO_TYPE_STRING], 166 + 5 - 2);
    assert_int_equal(n.types[KYMO_TYPE_LIST_INT64], 12);
    assert_int_equal(n.types[KYMO_TYPE_LIST_STRING], 1);
    assert_int_equal(n.types[KYMO_TYPE_LIST_INT32], 0);
}

/* What is ours never takes a reader of the vendor's tables by surprise: own tables are own in every column, and own
 * columns of the vendor's tables are optional and stand behind the vendor's. */
static void own_columns(void **state)
{
    (void)state;
    for (int id = 0; id < KYMO_T_MAX; id++) {
        const struct kymo_table *t = kymo_schema_table((enum kymo_table_id)id);
        bool own = t->own;
        for (size_t c = 0; c < t->column_count; c++) {
            assert_true(t->columns[c].own || !own);
            assert_false(!t->own && t->columns[c].own && t->columns[c].required);
            own |= t->columns[c].own;
        }
    }
    assert_true(count(true).tables >= 4);
}

static void table_sizes(void **state)
{
    (void)state;
    static const struct {
        enum kymo_table_id id;
        const char *name;
        size_t columns, required;
    } expect[] = {
        {KYMO_T_INSTRUCTION, "Instruction", 55 + 3 + 4, 9},
        {KYMO_T_SUMMARY, "Summary", 101 + 8, 0},
        {KYMO_T_DMA_PACKET_AGGREGATED, "DmaPacketAggregated", 37, 26},
        {KYMO_T_METADATA, "Metadata", 38 + 14, 22},
        {KYMO_T_SCHEMA_FIELDS, "SchemaFields", 12, 6},
        {KYMO_T_SYSTEM_PROFILE_HBM_USAGE, "SystemProfileHbmUsage", 27, 27},
        {KYMO_T_FRAMEWORK_NODE, "FrameworkNode", 32 + 1, 7},
        {KYMO_T_NEFF_HEADER, "NeffHeader", 14, 0},
    };
    for (size_t i = 0; i < sizeof expect / sizeof *expect; i++) {
        const struct kymo_table *t = kymo_schema_find(expect[i].name);
        assert_non_null(t);
        assert_ptr_equal(t, kymo_schema_table(expect[i].id));
        assert_int_equal(t->column_count, expect[i].columns);
        size_t required = 0;
        for (size_t c = 0; c < t->column_count; c++)
            required += t->columns[c].required;
        assert_int_equal(required, expect[i].required);
    }
}

static void names_are_unique(void **state)
{
    (void)state;
    for (unsigned a = 0; a < KYMO_T_MAX; a++) {
        const struct kymo_table *t = kymo_schema_table((enum kymo_table_id)a);
        assert_ptr_equal(kymo_schema_find(t->name), t);
        for (size_t c = 0; c < t->column_count; c++)
            assert_int_equal(kymo_schema_column(t, t->columns[c].name), c);
        if (t->sort_column)
            assert_true(kymo_schema_column(t, t->sort_column) >= 0);
    }
    assert_null(kymo_schema_find("instruction"));
    assert_null(kymo_schema_table(KYMO_T_MAX));
    assert_int_equal(kymo_schema_column(kymo_schema_table(KYMO_T_FLOW), "no_such"), -1);
}

static bool is_member(const char *list, const char *value)
{
    size_t n = strlen(value);

    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        if (strncmp(p, value, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    }
    return false;
}

static void columns_are_whole(void **state)
{
    (void)state;
    for (unsigned a = 0; a < KYMO_T_MAX; a++) {
        const struct kymo_table *t = kymo_schema_table((enum kymo_table_id)a);
        assert_true(strlen(t->description) > 5);
        for (size_t c = 0; c < t->column_count; c++) {
            const struct kymo_column *k = &t->columns[c];
            assert_true(strlen(k->description) > 2);
            assert_true(k->openapi_type[0] != '\0');
            assert_true(k->own || !t->own);
            if (!k->required) {
                assert_null(k->empty);
            } else if (k->type == KYMO_TYPE_STRING) {
                assert_true(k->empty[0] == '\0' || is_member(k->enum_values, k->empty));
            } else if (k->type >= KYMO_TYPE_LIST_INT32) {
                assert_string_equal(k->empty, "");
            } else {
                assert_true(strcmp(k->empty, "0") == 0 || strcmp(k->empty, "-1") == 0);
            }
        }
    }
}

static void enums_match_columns(void **state)
{
    (void)state;
    const struct kymo_table *t = kymo_schema_table(KYMO_T_INSTRUCTION);

    assert_string_equal(t->columns[KYMO_INSTRUCTION_START_TS].name, "start_ts");
    assert_string_equal(t->columns[KYMO_INSTRUCTION_SYMBOLIC_OPERANDS].name, "symbolic_operands");
    assert_int_equal(t->columns[KYMO_INSTRUCTION_PSUM_READ_BANKS].type, KYMO_TYPE_LIST_INT32);
    assert_int_equal(KYMO_INSTRUCTION_MAX, t->column_count);
    assert_string_equal(t->sort_column, "start_ts");
    assert_string_equal(kymo_schema_table(KYMO_T_DMA_PACKET)->columns[KYMO_DMA_PACKET_QUEUE_TYPE].empty, "unknown");
    assert_int_equal(kymo_schema_table(KYMO_T_SYSTEM_PROFILE_EVENTS)->columns[KYMO_SYSTEM_PROFILE_EVENTS_FLOW_ID].type,
                     KYMO_TYPE_LIST_STRING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vendor_counts),    cmocka_unit_test(own_columns),       cmocka_unit_test(table_sizes),
        cmocka_unit_test(names_are_unique), cmocka_unit_test(columns_are_whole), cmocka_unit_test(enums_match_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
