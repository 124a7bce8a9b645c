/* Holds files to what the capture's manifest says of them. */
#ifndef KYMO_PIPELINE_CLAIMS_H
#define KYMO_PIPELINE_CLAIMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/manifest_check.h"

/*
 * -EPROTO with the difference when the manifest at manifest_path lists this very file with another size or SHA-256.
 * A file that it does not list is fine. sha256: NULL to have the file read for it.
 */
int claims_check(const Kymo__Manifest__Capture *m, const char *manifest_path, const char *path, const uint8_t *sha256,
                 struct kymo_err *err) KYMO_MUST_CHECK;

#endif
