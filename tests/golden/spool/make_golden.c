/*
 * Makes the golden spool of the present version: a few captures, acknowledged in part, one delivered, two lost.
 * With causes: a spool whose losses have causes that the present kymo does not know, as an older one meets them.
 * usage: make_spool_golden DIR [causes]. Run once for a version; what was made is kept for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "daemon/spool/spool_internal.h"
#include "tests/unit/spool_story.h"

static uint64_t now_ns;

static uint64_t fixed_clock(void)
{
    return 1700000000000000000u + 1000 * ++now_ns;
}

static int lose(struct spool *s, const char *id, uint32_t cause)
{
    struct spool_entry *e = spool_entry_new(id, strlen(id), 0, 0);
    if (!e)
        return -1;
    e->seq = s->state.next_seq;
    int r = spool_append_lost(s, e, 1000, cause, false, NULL);
    spool_entry_free(e);
    return r;
}

/* One row of a snapshot and two losses behind it. */
static int make_causes(const char *dir)
{
    struct spool *s;
    if (spool_open(dir, &story_limits, &s, NULL) < 0)
        return 1;
    int r = lose(s, "cap-0", 200);
    if (r == 0)
        r = spool_new_segment(s, NULL);
    if (r == 0)
        r = lose(s, "cap-1", 200);
    if (r == 0)
        r = lose(s, "cap-2", 201);
    spool_close(s);
    return r < 0;
}

int main(int argc, char **argv)
{
    static const struct kymo_clock_ops clock = {.mono_ns = fixed_clock, .real_ns = fixed_clock};
    struct story story;
    char intake[512];
    if (argc < 2 || argc > 3 || snprintf(intake, sizeof intake, "%s.intake", argv[1]) >= (int)sizeof intake)
        return 2;
    kymo_clock_set_ops(&clock);
    if (argc == 3)
        return strcmp(argv[2], "causes") == 0 ? make_causes(argv[1]) : 2;
    if (mkdir(intake, 0700) < 0)
        return 1;
    story_run(&story, argv[1], intake);
    return story.captures[STORY_CAPTURES - 1].done ? 0 : 1;
}
