/* Text of files and peers as a terminal may have it: nothing in it moves the cursor, colours or ends a line. Pure. */
#ifndef KYMO_BASE_PLAIN_H
#define KYMO_BASE_PLAIN_H

#include <stddef.h>
#include <stdio.h>

#define KYMO_PLAIN_MAX 8 /* bytes that one character becomes at most */

/*
 * The character that *text begins with, and *text moved behind it: as it is, or \xNN by byte where it is a control
 * character (C0, DEL, C1) or no UTF-8. Returns the bytes in out; 0 at the end of the text. A backslash is left alone,
 * so that what went through once goes through unchanged.
 */
size_t kymo_plain_next(const char **text, char out[static KYMO_PLAIN_MAX]);

/* At most size - 1 bytes, cut between characters, and a zero. Returns the bytes. */
size_t kymo_plain_copy(char *out, size_t size, const char *text);

void kymo_plain_print(FILE *out, const char *text);

#endif
