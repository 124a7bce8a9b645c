/* Values of what users keep (viewer_db.h): whether one is of its kind, and within its limits. Pure. */
#ifndef KYMO_COLLECTOR_VIEWER_VALUE_H
#define KYMO_COLLECTOR_VIEWER_VALUE_H

#include "collector/viewer_db.h"

/* -EINVAL, saying what is wrong. */
int viewer_value_check(enum viewer_kind kind, const json_t *value, struct kymo_err *err) KYMO_MUST_CHECK;
/* 1 to VIEWER_DB_KEY_MAX bytes, none of them a control character. */
int viewer_value_check_key(const char *key, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
