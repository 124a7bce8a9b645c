/* A small program with every layer of debug information, for the tests of formats/neff. */
#ifndef KYMO_TESTS_UNIT_NEFF_SAMPLE_H
#define KYMO_TESTS_UNIT_NEFF_SAMPLE_H

#include "base/err.h"
#include "formats/neff/neff_writer.h"

/* flat: debug_info_<layer>.pe.dbg beside def.json, backend in two parts; else a debug_info/ folder at the root. */
enum neff_sample_debug { NEFF_SAMPLE_NONE, NEFF_SAMPLE_FLAT, NEFF_SAMPLE_FOLDER };

#define NEFF_SAMPLE_INSTRUCTIONS 4

struct neff_header neff_sample_header(unsigned pkg_version);
/* Adds all members; 0 or what neff_writer_add or memory said. */
int neff_sample_fill(struct neff_writer *w, enum neff_sample_debug debug, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
