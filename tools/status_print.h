/* A daemon's status for people (within 100 columns) and for programs. Texts may be anything: they are made printable.
 */
#ifndef KYMO_TOOLS_STATUS_PRINT_H
#define KYMO_TOOLS_STATUS_PRINT_H

#include <stdio.h>

#include "proto/control.h"

#define STATUS_PRINT_COLUMNS 100

void status_print(const Kymo__Control__StatusReply *s, FILE *out);
void status_print_json(const Kymo__Control__StatusReply *s, FILE *out);

/* "312 B", "1.5 GB"; "870 us", "1.20 s"; "3 h 12 min". For at least 16 bytes. */
void status_print_bytes(uint64_t bytes, char *out, size_t n);
void status_print_ns(uint64_t ns, char *out, size_t n);
void status_print_age(uint64_t ms, char *out, size_t n);
/* "0-3,8" of at most width characters, ending with "+" where it is cut. */
void status_print_cores(const uint32_t *cores, size_t ncores, char *out, size_t width);

#endif
