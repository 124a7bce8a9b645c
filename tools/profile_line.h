/* A profile as one line for people, from its JSON: the same whether a store or a collector told it. */
#ifndef KYMO_TOOLS_PROFILE_LINE_H
#define KYMO_TOOLS_PROFILE_LINE_H

#include <jansson.h>

/* "NAME ready PLACE", "NAME failed: REASON (offset N)", "NAME processing: STAGE, N of M", ... on stdout, without
 * control characters. */
void profile_line_print(const json_t *profile);
/* A text of an object; "" where there is none. */
const char *profile_line_text(const json_t *object, const char *key);

#endif
