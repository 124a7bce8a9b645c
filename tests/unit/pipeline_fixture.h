/*
 * A scratch directory with a small simulated capture: program.neff of the MLP model and profile.ntff, for tests of the
 * pipeline. Anything that fails fails the test.
 */
#ifndef KYMO_TESTS_UNIT_PIPELINE_FIXTURE_H
#define KYMO_TESTS_UNIT_PIPELINE_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "pipeline/warnings.h"

struct fixture {
    char dir[64];
    char neff[96], other[96], ntff[96], out[96]; /* other: a NEFF of another uuid */
};

/* instance: trn2.48xlarge, ...; arch: its generation. */
void fixture_open(struct fixture *f, const char *arch, const char *instance);
void fixture_close(struct fixture *f); /* removes the directory */
/* Whole file; the caller frees it with kymo_free. */
uint8_t *fixture_read(const char *path, size_t *ret_n);
void fixture_put(const char *path, const void *data, size_t n);
/* Names in a directory, without . and .. */
size_t fixture_count(const char *dir);
/* Some warning has this in its text. */
int fixture_warned(const struct warnings *w, const char *part);

#endif
