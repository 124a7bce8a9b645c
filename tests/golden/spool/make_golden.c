/*
 * Makes the golden spool of the present version: a few captures, acknowledged in part, one delivered, two lost.
 * usage: make_spool_golden DIR. Run once for a version; what was made is kept for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "tests/unit/spool_story.h"

static uint64_t now_ns;

static uint64_t fixed_clock(void)
{
    return 1700000000000000000u + 1000 * ++now_ns;
}

int main(int argc, char **argv)
{
    static const struct kymo_clock_ops clock = {.mono_ns = fixed_clock, .real_ns = fixed_clock};
    struct story story;
    char intake[512];
    if (argc != 2 || snprintf(intake, sizeof intake, "%s.intake", argv[1]) >= (int)sizeof intake)
        return 2;
    kymo_clock_set_ops(&clock);
    if (mkdir(intake, 0700) < 0)
        return 1;
    story_run(&story, argv[1], intake);
    return story.captures[STORY_CAPTURES - 1].done ? 0 : 1;
}
