/* What is known of the system trace's numbers and words (systrace_events.def, systrace_usage.def). Constant data. */
#ifndef KYMO_FORMATS_SYSTRACE_SYSTRACE_FACTS_H
#define KYMO_FORMATS_SYSTRACE_SYSTRACE_FACTS_H

#include <stddef.h>
#include <stdint.h>

#define SYSTRACE_DATA_VERSION 2
#define SYSTRACE_SAMPLES_MAX 10000 /* the runtime's host sampler stops after so many (C) */

enum systrace_event_type {
#define SYSTRACE_EVENT(value, type, name, source) SYSTRACE_##type = (value),
#include "formats/systrace/systrace_events.def"
#undef SYSTRACE_EVENT
    SYSTRACE_EVENT_MAX
};

enum systrace_source { SYSTRACE_SOURCE_NEURON_RT, SYSTRACE_SOURCE_NEURON_HW, SYSTRACE_SOURCE_FRAMEWORK };

enum systrace_usage {
#define SYSTRACE_USAGE(id, word) SYSTRACE_USAGE_##id,
#include "formats/systrace/systrace_usage.def"
#undef SYSTRACE_USAGE
    SYSTRACE_USAGE_MAX
};

const char *systrace_event_name(unsigned type); /* NULL: not a known type */
enum systrace_source systrace_event_source(unsigned type);
const char *systrace_source_name(enum systrace_source source); /* neuron_rt, neuron_hw, framework */
const char *systrace_usage_name(enum systrace_usage usage);
enum systrace_usage systrace_usage_find(const char *word); /* SYSTRACE_USAGE_MAX: not a known one */

#endif
