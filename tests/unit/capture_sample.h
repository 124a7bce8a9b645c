/* Small captures in memory, and faults in the file system, for tests of the store. What fails fails the test. */
#ifndef KYMO_TESTS_UNIT_CAPTURE_SAMPLE_H
#define KYMO_TESTS_UNIT_CAPTURE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/manifest_check.h"

struct sample_file {
    const char *name;
    Kymo__Manifest__File__Kind type;
    const void *data;
    size_t size;
    uint32_t vnc;
};

/* Packs a manifest with sizes and hashes of the n files; the caller frees it with kymo_free. */
uint8_t *capture_sample_manifest(const char *id, const struct sample_file *files, size_t n, size_t *ret_size);

/*
 * From the nth call on that changes the file system (0: the first), such calls fail with this errno, n of them; with
 * errno 0 the process ends at the nth call as if killed. Writes that fail have written half. Negative nth: none.
 * Syncs that do not fail do nothing.
 */
void capture_sample_fail(long nth, int error, long times);
long capture_sample_calls(void); /* such calls since capture_sample_fail */

#endif
