/* JSON values of what somebody sent. */
#ifndef KYMO_COLLECTOR_JSON_TEXT_H
#define KYMO_COLLECTOR_JSON_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"

/* A string of any bytes: those that are no UTF-8 become '?'. */
json_t *json_text(const char *s);
/* Numbers beyond 63 bits become the largest that JSON integers hold here. */
json_t *json_number(uint64_t n);
/* Takes value; puts it only if known. A missing object or value (no memory) shows in the whole: it stays without. */
void json_put(json_t *object, const char *key, json_t *value, bool known);

/* Appends it without spaces. -ENOMEM also without a value, -ENOBUFS. */
int json_print(const json_t *value, struct kymo_buf *b);

#endif
