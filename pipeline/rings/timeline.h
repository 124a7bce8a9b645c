/*
 * Which NEFF ran when: the executions of the profile in order of start, from the NTFF's timeline. A profile of one NEFF
 * needs none: everything belongs to it.
 */
#ifndef KYMO_PIPELINE_RINGS_TIMELINE_H
#define KYMO_PIPELINE_RINGS_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/input.h"
#include "pipeline/rings/timebase.h"

#define TIMELINE_MAX (1u << 20)
#define TIMELINE_NO_NODE UINT32_MAX

struct timeline_exec {
    uint64_t start_ps, end_ps; /* corrected */
    uint32_t node;             /* in input.nodes; TIMELINE_NO_NODE: not a NEFF that is described */
    uint32_t index;
    uint32_t status; /* NRT_STATUS; 0: success */
    uint64_t rows;
};

struct timeline {
    struct timeline_exec *execs; /* sorted by start */
    size_t count;
    uint32_t only; /* the only node, or TIMELINE_NO_NODE when time decides */
};

int timeline_init(struct timeline *t, const struct input *in, const struct timebase *tb,
                  struct kymo_err *err) KYMO_MUST_CHECK;
void timeline_done(struct timeline *t);
/* Executions of a node; 1 when the timeline tells of none. */
size_t timeline_runs(const struct timeline *t, uint32_t node);
/* Those that did not fail. */
size_t timeline_whole_runs(const struct timeline *t, uint32_t node);
/* Executions that failed, of all nodes. */
size_t timeline_failures(const struct timeline *t);

/*
 * Execution at ps: the last one that started at or before it, else the first. *hint is the caller's place, 0 at first;
 * times of one caller seldom go back. SIZE_MAX: there is no timeline.
 */
static inline size_t timeline_at(const struct timeline *t, uint64_t ps, size_t *hint)
{
    if (!t->count)
        return SIZE_MAX;
    size_t i = *hint < t->count ? *hint : 0;
    while (i > 0 && t->execs[i].start_ps > ps)
        i--;
    while (i + 1 < t->count && t->execs[i + 1].start_ps <= ps)
        i++;
    *hint = i;
    return i;
}

/* Node of a record at ps. */
static inline uint32_t timeline_node(const struct timeline *t, uint64_t ps, size_t *hint)
{
    if (t->only != TIMELINE_NO_NODE)
        return t->only;
    size_t i = timeline_at(t, ps, hint);
    return i == SIZE_MAX ? TIMELINE_NO_NODE : t->execs[i].node;
}

/* Counts one row for the execution at ps. */
static inline void timeline_count(struct timeline *t, uint64_t ps, size_t *hint)
{
    size_t i = timeline_at(t, ps, hint);
    if (i != SIZE_MAX)
        t->execs[i].rows++;
}

#endif
