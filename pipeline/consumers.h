/* The consumers of one profile's events (consumer.h): gathers batches and hands them to each. Not thread-safe. */
#ifndef KYMO_PIPELINE_CONSUMERS_H
#define KYMO_PIPELINE_CONSUMERS_H

#include "pipeline/consumer.h"

struct consumers;

/* Opens every consumer of the list in consumers.c. */
int consumers_open(const struct job *j, struct consumers **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct consumers *consumers_free(struct consumers *c);

int consumers_packet(struct consumers *c, const struct consumer_packet *row, struct kymo_err *err) KYMO_MUST_CHECK;
int consumers_transfer(struct consumers *c, const struct consumer_transfer *row, struct kymo_err *err) KYMO_MUST_CHECK;
int consumers_host_transfer(struct consumers *c, const struct consumer_host_transfer *row,
                            struct kymo_err *err) KYMO_MUST_CHECK;
int consumers_semaphore(struct consumers *c, const struct consumer_semaphore *row,
                        struct kymo_err *err) KYMO_MUST_CHECK;
int consumers_instruction(struct consumers *c, const struct instr_row *row, struct kymo_err *err) KYMO_MUST_CHECK;
/* No event of this stage follows. */
int consumers_end_stage(struct consumers *c, enum consumer_stage stage, struct kymo_err *err) KYMO_MUST_CHECK;
int consumers_finish(struct consumers *c, struct warnings *w, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
