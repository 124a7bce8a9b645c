/* A directory of results that appears whole or not at all: made as PLACE.tmp-PID beside its place, then exchanged. */
#ifndef KYMO_COLLECTOR_GATHER_GATHER_OUTPUT_H
#define KYMO_COLLECTOR_GATHER_GATHER_OUTPUT_H

#include "base/err.h"

struct gather_output {
    char *place, *work;
    int dir; /* of work; -1: not open */
};

/* -EEXIST: the place holds something else than tables that kymo-gather made, and would be lost. */
int gather_output_open(struct gather_output *o, const char *place, struct kymo_err *err) KYMO_MUST_CHECK;
int gather_output_publish(struct gather_output *o, struct kymo_err *err) KYMO_MUST_CHECK;
/* Removes what was not published, or was replaced. */
void gather_output_done(struct gather_output *o);

#endif
