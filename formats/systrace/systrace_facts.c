#include "formats/systrace/systrace_facts.h"

#include <string.h>

static const struct {
    const char *name;
    enum systrace_source source;
} events[SYSTRACE_EVENT_MAX] = {
#define SYSTRACE_EVENT(value, type, name, source) [value] = {name, SYSTRACE_SOURCE_##source},
#include "formats/systrace/systrace_events.def"
#undef SYSTRACE_EVENT
};

static const char *const usages[SYSTRACE_USAGE_MAX] = {
#define SYSTRACE_USAGE(id, word) [SYSTRACE_USAGE_##id] = word,
#include "formats/systrace/systrace_usage.def"
#undef SYSTRACE_USAGE
};

const char *systrace_event_name(unsigned type)
{
    return type < SYSTRACE_EVENT_MAX ? events[type].name : NULL;
}

enum systrace_source systrace_event_source(unsigned type)
{
    return type < SYSTRACE_EVENT_MAX ? events[type].source : SYSTRACE_SOURCE_NEURON_RT;
}

const char *systrace_source_name(enum systrace_source source)
{
    static const char *const names[] = {"neuron_rt", "neuron_hw", "framework"};
    return names[source];
}

const char *systrace_usage_name(enum systrace_usage usage)
{
    return usages[usage];
}

enum systrace_usage systrace_usage_find(const char *word)
{
    unsigned i = 0;
    while (i < SYSTRACE_USAGE_MAX && strcmp(usages[i], word) != 0)
        i++;
    return (enum systrace_usage)i;
}
