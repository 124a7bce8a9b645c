/* What commands that work on a store share: their options, and turning its queue until nothing is left to do. */
#ifndef KYMO_TOOLS_STORE_WORK_H
#define KYMO_TOOLS_STORE_WORK_H

#include <stdint.h>

#include "base/options.h"
#include "collector/store.h"

struct store_work {
    const char *data_path, *processor, *processor_schema;
    uint64_t jobs, memory, time_limit_s, processor_memory, processor_time_s, reserve;
};

/* Rows for the member work of struct T. */
#define STORE_DATA_PATH_ROW(T, member)                                                                                 \
    {                                                                                                                  \
        .name = "data-path", .type = KYMO_OPTION_TEXT, .arg = "DIR", .required = true, .offset = offsetof(T, member),  \
        .help = "the store: raw/, profiles/ and catalog.db are in it"                                                  \
    }
/* The same beside the rows of collector_client.h: one of the two is to be given. */
#define STORE_OR_COLLECTOR_ROWS(T, member, collector)                                                                  \
    {.name = "data-path",                                                                                              \
     .type = KYMO_OPTION_TEXT,                                                                                         \
     .arg = "DIR",                                                                                                     \
     .offset = offsetof(T, member),                                                                                    \
     .help = "the store: raw/, profiles/ and catalog.db are in it"},                                                   \
        COLLECTOR_ROWS(T, collector)
#define STORE_WORK_ROWS(T, work) STORE_DATA_PATH_ROW(T, work.data_path), STORE_LIMIT_ROWS(T, work)
#define STORE_LIMIT_ROWS(T, work)                                                                                      \
    {.name = "jobs",                                                                                                   \
     .letter = 'j',                                                                                                    \
     .type = KYMO_OPTION_U64,                                                                                          \
     .arg = "N",                                                                                                       \
     .def = "2",                                                                                                       \
     .min = 1,                                                                                                         \
     .max = 64,                                                                                                        \
     .offset = offsetof(T, work.jobs),                                                                                 \
     .help = "profiles made at a time"},                                                                               \
        {.name = "memory",                                                                                             \
         .type = KYMO_OPTION_SIZE,                                                                                     \
         .arg = "SIZE",                                                                                                \
         .def = "4G",                                                                                                  \
         .offset = offsetof(T, work.memory),                                                                           \
         .help = "address space of one kymo-process; 0: no limit"},                                                    \
        {.name = "time-limit",                                                                                         \
         .type = KYMO_OPTION_U64,                                                                                      \
         .arg = "SECONDS",                                                                                             \
         .def = "3600",                                                                                                \
         .max = 1000000,                                                                                               \
         .offset = offsetof(T, work.time_limit_s),                                                                     \
         .help = "for one profile; 0: no limit"},                                                                      \
        {.name = "processor",                                                                                          \
         .type = KYMO_OPTION_TEXT,                                                                                     \
         .arg = "COMMAND",                                                                                             \
         .offset = offsetof(T, work.processor),                                                                        \
         .help = "for profiles that kymo cannot decode, with {ntff}, {neff}, {output}, ..."},                          \
        {.name = "processor-schema",                                                                                   \
         .type = KYMO_OPTION_TEXT,                                                                                     \
         .arg = "VERSION",                                                                                             \
         .offset = offsetof(T, work.processor_schema),                                                                 \
         .help = "version of its tables' schema"},                                                                     \
        {.name = "processor-memory",                                                                                   \
         .type = KYMO_OPTION_SIZE,                                                                                     \
         .arg = "SIZE",                                                                                                \
         .def = "16G",                                                                                                 \
         .offset = offsetof(T, work.processor_memory),                                                                 \
         .help = "its address space; 0: no limit"},                                                                    \
        {.name = "processor-time-limit",                                                                               \
         .type = KYMO_OPTION_U64,                                                                                      \
         .arg = "SECONDS",                                                                                             \
         .def = "3600",                                                                                                \
         .max = 1000000,                                                                                               \
         .offset = offsetof(T, work.processor_time_s),                                                                 \
         .help = "for one profile; 0: no limit"},                                                                      \
    {                                                                                                                  \
        .name = "reserve", .type = KYMO_OPTION_SIZE, .arg = "SIZE", .def = "64M", .offset = offsetof(T, work.reserve), \
        .help = "space on the disk that captures leave free"                                                           \
    }

/* Works until nothing waits that could be done now. Each profile that comes to an end is one line on stdout: its name,
 * state, and place or reason. A failure is said on stderr and is negative. */
int store_work_run(struct store *s, const struct store_work *w, const char *program);

/* "NAME ready PLACE", "NAME failed: REASON", ... on stdout. */
void store_work_print(const char *data_path, const struct catalog_profile *p);

#endif
