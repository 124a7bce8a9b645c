/*
 * The payload of a REQUEST frame (SERVE.md): an object of dir (absolute), op and params, whose values are texts, and
 * what operations read of these. Pure, but for memory.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_QUESTION_H
#define KYMO_COLLECTOR_QUERY_SERVE_QUESTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

struct serve_question {
    const char *dir, *op;
    json_t *params;
};

/* Texts and params of ret live in *ret_root, which is the caller's. -EINVAL. */
int serve_question_parse(const void *data, size_t n, json_t **ret_root, struct serve_question *ret,
                         struct kymo_err *err) KYMO_MUST_CHECK;

const char *serve_question_text(const struct serve_question *q, const char *name); /* NULL: not there */
/* A whole number within the bounds. -EINVAL: it is none, or it is not there and required. */
int serve_question_int(const struct serve_question *q, const char *name, int64_t min, int64_t max, bool required,
                       int64_t *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* A parameter that the collector makes of JSON; *ret is the caller's. -EINVAL: it is not there, or something else. */
int serve_question_json(const struct serve_question *q, const char *name, json_t **ret,
                        struct kymo_err *err) KYMO_MUST_CHECK;
/* One of the names, which end with NULL, by number; *ret stays where the parameter is absent. */
int serve_question_choice(const struct serve_question *q, const char *name, const char *const *names, int *ret,
                          struct kymo_err *err) KYMO_MUST_CHECK;
/* Whether a list of texts with commas between holds this one. */
bool serve_question_has(const char *list, const char *name);

#endif
