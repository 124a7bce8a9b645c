/*
 * A few threads that are made before the sandbox closes, when threads can still be made, and lent to whoever has work
 * for them. They take no signals. One lender at a time.
 */
#ifndef KYMO_PIPELINE_CREW_H
#define KYMO_PIPELINE_CREW_H

#include <stdbool.h>

#define CREW_MAX 16

struct crew;

/* As many of the threads as can be made, all of them running; NULL: none, which is no failure. */
struct crew *crew_new(unsigned threads);
/* Ends and joins them. */
struct crew *crew_free(struct crew *c);
/*
 * Each thread calls step(ctx) as long as it returns true, then sleeps until crew_wake. step NULL takes the work back:
 * on return no thread is inside of it. c NULL does nothing.
 */
typedef bool (*crew_step)(void *ctx);
void crew_lend(struct crew *c, crew_step step, void *ctx);
void crew_wake(struct crew *c);

#endif
