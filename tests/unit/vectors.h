/* Reads the conformance vectors (JSON lines) of tests/vectors for unit tests. Fails the test on any trouble. */
#ifndef KYMO_TESTS_UNIT_VECTORS_H
#define KYMO_TESTS_UNIT_VECTORS_H

#include <jansson.h>
#include <stdint.h>

/* Calls each(line, ctx) for every line; returns their number. */
size_t vectors_each(const char *path, void (*each)(json_t *line, void *ctx), void *ctx);

const char *vectors_string(const json_t *object, const char *key); /* must be there */
int64_t vectors_int(const json_t *object, const char *key);        /* integer, or decimal or 0x text */
double vectors_real(const json_t *object, const char *key);        /* number, or decimal text */
/* Hex text into out; returns the number of bytes. */
size_t vectors_hex(const char *hex, uint8_t *out, size_t max);

#endif
