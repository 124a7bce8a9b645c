#include "collector/query/query_types.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "collector/query/query_db.h"

#define NAME_MAX_BYTES 4096
#define DEPTH_MAX 8

static const char *const names[] = {
    [DUCKDB_TYPE_BOOLEAN] = "BOOLEAN",
    [DUCKDB_TYPE_TINYINT] = "TINYINT",
    [DUCKDB_TYPE_SMALLINT] = "SMALLINT",
    [DUCKDB_TYPE_INTEGER] = "INTEGER",
    [DUCKDB_TYPE_BIGINT] = "BIGINT",
    [DUCKDB_TYPE_UTINYINT] = "UTINYINT",
    [DUCKDB_TYPE_USMALLINT] = "USMALLINT",
    [DUCKDB_TYPE_UINTEGER] = "UINTEGER",
    [DUCKDB_TYPE_UBIGINT] = "UBIGINT",
    [DUCKDB_TYPE_FLOAT] = "FLOAT",
    [DUCKDB_TYPE_DOUBLE] = "DOUBLE",
    [DUCKDB_TYPE_TIMESTAMP] = "TIMESTAMP",
    [DUCKDB_TYPE_DATE] = "DATE",
    [DUCKDB_TYPE_TIME] = "TIME",
    [DUCKDB_TYPE_INTERVAL] = "INTERVAL",
    [DUCKDB_TYPE_HUGEINT] = "HUGEINT",
    [DUCKDB_TYPE_UHUGEINT] = "UHUGEINT",
    [DUCKDB_TYPE_VARCHAR] = "VARCHAR",
    [DUCKDB_TYPE_BLOB] = "BLOB",
    [DUCKDB_TYPE_TIMESTAMP_S] = "TIMESTAMP_S",
    [DUCKDB_TYPE_TIMESTAMP_MS] = "TIMESTAMP_MS",
    [DUCKDB_TYPE_TIMESTAMP_NS] = "TIMESTAMP_NS",
    [DUCKDB_TYPE_ENUM] = "ENUM",
    [DUCKDB_TYPE_UUID] = "UUID",
    [DUCKDB_TYPE_UNION] = "UNION",
    [DUCKDB_TYPE_BIT] = "BIT",
    [DUCKDB_TYPE_TIME_TZ] = "TIME WITH TIME ZONE",
    [DUCKDB_TYPE_TIMESTAMP_TZ] = "TIMESTAMP WITH TIME ZONE",
    [DUCKDB_TYPE_BIGNUM] = "BIGNUM",
    [DUCKDB_TYPE_SQLNULL] = "NULL",
};

static int put_type(struct kymo_buf *b, duckdb_logical_type type, int depth);

/* Takes over the type. */
static int put_part(struct kymo_buf *b, duckdb_logical_type type, int depth)
{
    int r = put_type(b, type, depth + 1);
    duckdb_destroy_logical_type(&type);
    return r;
}

static int put_struct(struct kymo_buf *b, duckdb_logical_type type, int depth)
{
    idx_t n = duckdb_struct_type_child_count(type);
    int r = kymo_buf_printf(b, "STRUCT(");
    for (idx_t i = 0; i < n && r == 0; i++) {
        char *name = duckdb_struct_type_child_name(type, i);
        r = kymo_buf_printf(b, "%s%s ", i ? ", " : "", name ? name : "");
        duckdb_free(name);
        if (r == 0)
            r = put_part(b, duckdb_struct_type_child_type(type, i), depth);
    }
    return r < 0 ? r : kymo_buf_printf(b, ")");
}

static int put_map(struct kymo_buf *b, duckdb_logical_type type, int depth)
{
    int r = kymo_buf_printf(b, "MAP(");
    if (r == 0)
        r = put_part(b, duckdb_map_type_key_type(type), depth);
    if (r == 0)
        r = kymo_buf_printf(b, ", ");
    if (r == 0)
        r = put_part(b, duckdb_map_type_value_type(type), depth);
    return r < 0 ? r : kymo_buf_printf(b, ")");
}

static int put_nested(struct kymo_buf *b, duckdb_logical_type type, duckdb_type id, int depth)
{
    int r;
    switch (id) {
    case DUCKDB_TYPE_LIST:
        r = put_part(b, duckdb_list_type_child_type(type), depth);
        return r < 0 ? r : kymo_buf_printf(b, "[]");
    case DUCKDB_TYPE_ARRAY:
        r = put_part(b, duckdb_array_type_child_type(type), depth);
        return r < 0 ? r : kymo_buf_printf(b, "[%llu]", (unsigned long long)duckdb_array_type_array_size(type));
    case DUCKDB_TYPE_STRUCT:
        return put_struct(b, type, depth);
    case DUCKDB_TYPE_MAP:
        return put_map(b, type, depth);
    default:
        return kymo_buf_printf(b, "UNKNOWN");
    }
}

static int put_type(struct kymo_buf *b, duckdb_logical_type type, int depth)
{
    duckdb_type id = duckdb_get_type_id(type);
    char *alias = duckdb_logical_type_get_alias(type);
    int r;
    if (alias)
        r = kymo_buf_printf(b, "%s", alias);
    else if (id == DUCKDB_TYPE_DECIMAL)
        r = kymo_buf_printf(b, "DECIMAL(%d,%d)", duckdb_decimal_width(type), duckdb_decimal_scale(type));
    else if (id < sizeof names / sizeof *names && names[id])
        r = kymo_buf_printf(b, "%s", names[id]);
    else
        r = depth > DEPTH_MAX ? -ENOBUFS : put_nested(b, type, id, depth);
    duckdb_free(alias);
    return r;
}

/* What is too long or too deep is not told in full. */
static char *name_of(duckdb_prepared_statement statement, idx_t column)
{
    struct kymo_buf b;
    duckdb_logical_type type = duckdb_prepared_statement_column_logical_type(statement, column);
    kymo_buf_init(&b, NAME_MAX_BYTES);
    int r = put_type(&b, type, 0);
    char *name = r == -ENOBUFS ? kymo_strdup("NESTED") : r < 0 ? NULL : kymo_strndup((const char *)b.data, b.len);
    duckdb_destroy_logical_type(&type);
    kymo_buf_done(&b);
    return name;
}

int query_types_read(duckdb_prepared_statement statement, struct query_types *ret)
{
    idx_t n = duckdb_prepared_statement_column_count(statement);
    if (n > QUERY_COLUMNS_MAX)
        return -E2BIG;
    struct query_types t = {.names = KYMO_NEW_ARRAY(char *, n + 1)};
    if (!t.names)
        return -ENOMEM;
    for (; t.n < n; t.n++)
        if (!(t.names[t.n] = name_of(statement, t.n))) {
            query_types_done(&t);
            return -ENOMEM;
        }
    query_types_done(ret);
    *ret = t;
    return 0;
}

void query_types_done(struct query_types *t)
{
    for (size_t i = 0; i < t->n; i++)
        kymo_free(t->names[i]);
    kymo_free(t->names);
    *t = (struct query_types){0};
}
