/*
 * The target of an HTTP request, "/a/b?x=1&y=%20z", taken apart strictly: its bytes come from anybody. Pure, but for
 * memory.
 */
#ifndef KYMO_COLLECTOR_HTTP_TARGET_H
#define KYMO_COLLECTOR_HTTP_TARGET_H

#include <stddef.h>

#include "base/err.h"

#define HTTP_TARGET_MAX 8192 /* bytes as sent */
#define HTTP_SEGMENTS_MAX 16
#define HTTP_PARAMS_MAX 32

struct http_param {
    const char *name, *value;
};

/* Decoded; strings are valid UTF-8 without control characters and live until done. */
struct http_target {
    size_t n_segments, n_params;
    const char *segments[HTTP_SEGMENTS_MAX];
    struct http_param params[HTTP_PARAMS_MAX];
    char *text;
};

/*
 * Segments are never empty, "." or "..": such a path and one with too many segments name nothing here and are -ENOENT.
 * -EINVAL: it does not begin with '/', a bad escape, a control character, no UTF-8, a parameter without a name or
 * twice; -E2BIG: too long or too many parameters. An escaped '/' belongs to its segment.
 */
int http_target_parse(const char *text, struct http_target *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void http_target_done(struct http_target *t);

/* The value of a parameter; NULL: it is not there. */
const char *http_target_param(const struct http_target *t, const char *name);

#endif
