#include "formats/schema/schema.h"

#include <string.h>

#include "formats/schema/schema_tables.h"

const struct kymo_table *kymo_schema_table(enum kymo_table_id id)
{
    return (unsigned)id < KYMO_T_MAX ? &kymo_schema_tables[id] : NULL;
}

const struct kymo_table *kymo_schema_find(const char *table)
{
    for (size_t i = 0; i < KYMO_T_MAX; i++) {
        if (strcmp(kymo_schema_tables[i].name, table) == 0)
            return &kymo_schema_tables[i];
    }
    return NULL;
}

int kymo_schema_column(const struct kymo_table *table, const char *column)
{
    for (size_t i = 0; i < table->column_count; i++) {
        if (strcmp(table->columns[i].name, column) == 0)
            return (int)i;
    }
    return -1;
}
