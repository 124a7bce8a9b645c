/*
 * Thrift compact protocol, the reading side: what table_file takes from Parquet's footers and page headers. Whatever
 * is wrong with the bytes sticks in bad, and all values are 0 from there on. Nothing is allocated; texts point into the
 * bytes.
 */
#ifndef KYMO_FORMATS_PARQUET_READ_TABLE_THRIFT_H
#define KYMO_FORMATS_PARQUET_READ_TABLE_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_THRIFT_DEPTH_MAX 16

enum table_thrift_type {
    TABLE_THRIFT_STOP = 0,
    TABLE_THRIFT_TRUE = 1,
    TABLE_THRIFT_FALSE = 2,
    TABLE_THRIFT_BYTE = 3,
    TABLE_THRIFT_I16 = 4,
    TABLE_THRIFT_I32 = 5,
    TABLE_THRIFT_I64 = 6,
    TABLE_THRIFT_DOUBLE = 7,
    TABLE_THRIFT_BINARY = 8,
    TABLE_THRIFT_LIST = 9,
    TABLE_THRIFT_SET = 10,
    TABLE_THRIFT_MAP = 11,
    TABLE_THRIFT_STRUCT = 12
};

struct table_thrift {
    const uint8_t *at, *end;
    bool bad;
};

struct table_thrift_field {
    int id; /* of the field before, 0 to begin a structure with */
    enum table_thrift_type type;
};

/* The next field of a structure; false: it is over. */
bool table_thrift_next(struct table_thrift *t, struct table_thrift_field *f);
int64_t table_thrift_int(struct table_thrift *t); /* of I16, I32, I64 */
const uint8_t *table_thrift_binary(struct table_thrift *t, size_t *ret_n);
/* The number of a list's elements, which follow, if they are of this type; else bad. */
size_t table_thrift_list(struct table_thrift *t, enum table_thrift_type type);
void table_thrift_skip(struct table_thrift *t, enum table_thrift_type type);

#endif
