/*
 * The line that shows how far kymo-process is with one profile: a bar over all stages, the stage, its rate and the time
 * that is left. Pure but for what it remembers; the caller brings the time.
 */
#ifndef KYMO_TOOLS_PROCESS_PROGRESS_H
#define KYMO_TOOLS_PROCESS_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

#define PROCESS_PROGRESS_MAX 512 /* bytes of a line */

struct process_progress {
    const char *name;
    size_t width; /* columns of the terminal */
    uint64_t begin_ns, stage_begin_ns;
    char stage[32];
};

/* name is kept. width 0: 80. */
void process_progress_init(struct process_progress *p, const char *name, size_t width, uint64_t now_ns);
/*
 * Takes one report: done of total records in a stage (total 0: not known). Writes the line, at most width - 1 columns,
 * and returns its length. Without a rate yet it has none, and no time left in the first second.
 */
size_t process_progress_line(struct process_progress *p, const char *stage, uint64_t done, uint64_t total,
                             uint64_t now_ns, char out[static PROCESS_PROGRESS_MAX]);

#endif
