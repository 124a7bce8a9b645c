/* Log lines about what others do, at a bounded rate: whoever misbehaves must not fill the journal. One thread. */
#ifndef KYMO_DAEMON_SAY_H
#define KYMO_DAEMON_SAY_H

#include <stdint.h>

#include "base/log.h"

#define SAY_BURST 10u
#define SAY_EVERY_MS 5000u /* in the long run one line in this time */

struct say_limit {
    uint64_t used, since_ms, kept_back;
};

/* A line, or none; the next one that comes through says how many were kept back. */
void say_limited(struct say_limit *l, enum kymo_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
