/* What the API speaks to in tests: a catalogue with made-up captures, and parts of a collector that answer. */
#ifndef KYMO_TESTS_UNIT_API_SAMPLE_H
#define KYMO_TESTS_UNIT_API_SAMPLE_H

#include <uv.h>

#include "collector/api.h"

struct api_sample;

/*
 * Makes <data_path>/catalog.db with n captures "cap-00000", ...: two profiles each, jobs "train" and "eval" in turn,
 * hosts "host-0" to "host-9", rank = number modulo 8; the states of the profiles go round. One capture more has hostile
 * names, and one is still being received.
 */
int api_sample_new(uv_loop_t *loop, const char *data_path, unsigned n, struct api_sample **ret, struct kymo_err *err);
/* Answers what is under way; the loop must run once more. */
void api_sample_stop(struct api_sample *s);
struct api_sample *api_sample_free(struct api_sample *s);
const struct api_source *api_sample_source(const struct api_sample *s);

#endif
