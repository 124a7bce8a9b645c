/* Header bytes (FORMAT.md section 1), internal to this folder beside the public neff_header_parse. */
#ifndef KYMO_FORMATS_NEFF_NEFF_HEADER_H
#define KYMO_FORMATS_NEFF_NEFF_HEADER_H

#include <stdint.h>

#include "formats/neff/neff.h"

/* Fields as they are, into NEFF_HEADER_SIZE bytes. */
void neff_header_encode(const struct neff_header *h, uint8_t out[NEFF_HEADER_SIZE]);
/* neff_header_parse which also tells the class of a refusal. */
int neff_header_decode(const uint8_t *data, size_t n, struct neff_header *ret, enum neff_error *ret_class,
                       struct kymo_err *err) KYMO_MUST_CHECK;

#endif
