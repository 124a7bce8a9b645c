/*
 * The consumers of one profile's events (consumer.h): gathers batches and hands them to each. With a crew, each
 * consumer has a queue of its own that any thread works off, so that tables are written side by side; the caller lends
 * a hand when it would have to wait. Batches under way have a maximum. To be called by one thread.
 */
#ifndef KYMO_PIPELINE_CONSUMERS_H
#define KYMO_PIPELINE_CONSUMERS_H

#include "pipeline/consumer.h"

struct consumers;
struct crew;

/* Opens every consumer of the list in consumers.c. crew may be NULL. */
int consumers_open(const struct job *j, struct crew *crew, struct consumers **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* The same with another list, which ends with NULL; for tests. */
int consumers_open_list(const struct job *j, const struct consumer *const *list, struct crew *crew,
                        struct consumers **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct consumers *consumers_free(struct consumers *c);

/* A consumer's failure is reported by one of the following calls, at the latest by consumers_finish. */
int consumers_packet(struct consumers *c, const struct consumer_packet *row, struct kymo_err *err) KYMO_MUST_CHECK;
int consumers_transfer(struct consumers *c, const struct consumer_transfer *row, struct kymo_err *err) KYMO_MUST_CHECK;
int consumers_host_transfer(struct consumers *c, const struct consumer_host_transfer *row,
                            struct kymo_err *err) KYMO_MUST_CHECK;
int consumers_collective(struct consumers *c, const struct consumer_collective *row,
                         struct kymo_err *err) KYMO_MUST_CHECK;
int consumers_semaphore(struct consumers *c, const struct consumer_semaphore *row,
                        struct kymo_err *err) KYMO_MUST_CHECK;
int consumers_instruction(struct consumers *c, const struct instr_row *row, struct kymo_err *err) KYMO_MUST_CHECK;
/* No event of this stage follows. */
int consumers_end_stage(struct consumers *c, enum consumer_stage stage, struct kymo_err *err) KYMO_MUST_CHECK;
/* Waits until everything was taken, then finishes each consumer in the order of the list. */
int consumers_finish(struct consumers *c, struct warnings *w, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
