/* The generated table list, for schema.c alone. */
#ifndef KYMO_FORMATS_SCHEMA_SCHEMA_TABLES_H
#define KYMO_FORMATS_SCHEMA_SCHEMA_TABLES_H

#include "formats/schema/schema.h"

extern const struct kymo_table kymo_schema_tables[KYMO_T_MAX];

#endif
