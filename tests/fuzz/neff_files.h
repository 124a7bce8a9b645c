/*
 * A package without an archive around it, whose checksums a fuzzer could hardly repair: the input is a list of members,
 * each a name number (1 byte, modulo the names), a length (2 bytes, little-endian) and contents.
 */
#ifndef KYMO_TESTS_FUZZ_NEFF_FILES_H
#define KYMO_TESTS_FUZZ_NEFF_FILES_H

#include "formats/neff/neff_internal.h"

/* NULL: out of memory. Members point into data; names sorted, of two with one name the first stays. */
struct neff *neff_from_files(const uint8_t *data, size_t size, const char *const *names, size_t name_count);
/* Reads everything the debug layers say of it, so that a sanitizer sees it read; NULL is fine. */
void neff_touch_debug(const struct neff_debug *d);
void neff_touch_text(const char *s);
/* The same for stack frames and NKI kernels: every reference must lead somewhere, every chain must end. */
void neff_touch_sources(const struct neff *n, const struct neff_kernels *k);

#endif
