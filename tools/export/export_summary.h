/*
 * The figures of a finished profile for people and for scripts. The JSON form is stable (README.md beside this file):
 * names are those of tables and columns, values are as they are stored, lower_bounds and uncertain name the figures
 * that rest on incomplete data, and why. Not thread-safe.
 */
#ifndef KYMO_TOOLS_EXPORT_EXPORT_SUMMARY_H
#define KYMO_TOOLS_EXPORT_EXPORT_SUMMARY_H

#include "base/buf.h"
#include "collector/query/export_profile.h"

#define EXPORT_SUMMARY_VERSION 1
#define EXPORT_SUMMARY_MAX (64u << 20)

/* Appends the whole text. */
int export_summary_text(const struct export_profile *p, struct kymo_buf *out, struct kymo_err *err) KYMO_MUST_CHECK;
int export_summary_json(const struct export_profile *p, struct kymo_buf *out, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
