/*
 * Records of comma-separated values after RFC 4180: CRLF ends a record; a field is quoted when it holds a comma, a
 * quote, CR or LF, quotes inside doubled. Beyond that document: UTF-8, no byte order mark; a null is an empty field and
 * an empty text is "", so that both can be told apart by readers that look; numbers are the shortest text that reads
 * back as the same number; booleans are true and false; a list is one quoted field, [1, 2].
 *
 * A record is built in memory: fields in order, then csv_text_end. The first error sticks and is what csv_text_end
 * returns. Not thread-safe.
 */
#ifndef KYMO_FORMATS_CSV_CSV_TEXT_H
#define KYMO_FORMATS_CSV_CSV_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct csv_text {
    struct kymo_buf buf; /* whole records, and the one under way */
    size_t fields;       /* of the record under way */
    int error;
};

void csv_text_init(struct csv_text *c, size_t max); /* max: bytes of all records held at once */
void csv_text_done(struct csv_text *c);
void csv_text_reset(struct csv_text *c); /* forgets what is held, and the error */

void csv_text_null(struct csv_text *c);
void csv_text_string(struct csv_text *c, const char *s, size_t n);
void csv_text_int(struct csv_text *c, int64_t v);
void csv_text_float(struct csv_text *c, float v);
void csv_text_double(struct csv_text *c, double v);
void csv_text_bool(struct csv_text *c, bool v);
/* Ends the record. -ENOBUFS beyond max, -ENOMEM. */
int csv_text_end(struct csv_text *c) KYMO_MUST_CHECK;

#endif
