/*
 * Stand-ins for jobs, captures and the outbox, for tests of what stands before them: a test says what they tell, and
 * sees what they are asked. One world at a time.
 */
#ifndef KYMO_TESTS_DAEMON_PARTS_H
#define KYMO_TESTS_DAEMON_PARTS_H

#include "daemon/captures.h"
#include "daemon/hook_server.h"
#include "daemon/jobs.h"
#include "daemon/outbox.h"

#define PARTS_ASKS_MAX 64

struct captures_ask {
    captures_watch *watch; /* NULL: free */
    void *ctx;
};

struct daemon_parts {
    /* Told. */
    const struct jobs_rank *ranks;
    size_t nranks, njobs;
    struct captures_counts counts;
    struct outbox_status outbox;
    struct hook_server_counts hooks;
    int answer; /* of captures_ask */
    const char *text;
    size_t nids;
    /* Asked. */
    unsigned asked, unwatched;
    struct captures_wish wish;
    char job[256], mode[64], trigger[64];
    uint32_t cores[CAPTURES_CORES_MAX];
    struct captures_ask asks[PARTS_ASKS_MAX];
};

extern struct daemon_parts parts;

size_t parts_watching(void);

#endif
