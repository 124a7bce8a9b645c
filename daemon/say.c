#include "daemon/say.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"

#define LINE_MAX_BYTES 768
#define NS_PER_MS 1000000u

static bool may_say(struct say_limit *l)
{
    uint64_t now = kymo_clock_mono_ns() / NS_PER_MS, gained = (now - l->since_ms) / SAY_EVERY_MS;
    if (gained > 0) {
        l->used = l->used > gained ? l->used - gained : 0;
        l->since_ms = now;
    }
    if (l->used >= SAY_BURST) {
        l->kept_back++;
        return false;
    }
    l->used++;
    return true;
}

void say_limited(struct say_limit *l, enum kymo_log_level level, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    if (!may_say(l))
        return;
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (l->kept_back > 0)
        kymo_log(level, "%s (%llu lines like this were kept back)", line, (unsigned long long)l->kept_back);
    else
        kymo_log(level, "%s", line);
    l->kept_back = 0;
}
