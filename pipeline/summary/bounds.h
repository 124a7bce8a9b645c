/*
 * How far each figure of Summary can be trusted when something is missing: one table of all its columns, each with what
 * it rests on, and which way it errs when that is incomplete. Without state.
 */
#ifndef KYMO_PIPELINE_SUMMARY_BOUNDS_H
#define KYMO_PIPELINE_SUMMARY_BOUNDS_H

#include <stddef.h>

/* What figures rest on; each can be incomplete. */
enum bounds_input {
    BOUNDS_INSTRUCTIONS = 1 << 0, /* records of instructions, or one of an instruction's two */
    BOUNDS_DMA = 1 << 1,          /* records of DMA packets, or one of a packet's two */
    BOUNDS_EVENTS = 1 << 2,       /* records of semaphores */
    BOUNDS_STATUS = 1 << 3,       /* notices of executions */
    BOUNDS_CC = 1 << 4,           /* records of collectives and of CC-cores */
    BOUNDS_CC_EVENTS = 1 << 5,    /* records of the CC-cores' semaphores */
    BOUNDS_NOTICES = 1 << 6,      /* records of throttling, errors and host-device DMA */
    BOUNDS_WAITS = 1 << 7,        /* ends of waits beyond their counter */
    BOUNDS_NAMES = 1 << 8,        /* transfers that packets belong to */
    BOUNDS_DGE = 1 << 9,          /* DGE notifications, which tell how packets belong together */
    BOUNDS_NEFF = 1 << 10,        /* NEFFs, or images of them */
    BOUNDS_FAILED = 1 << 11,      /* executions that failed */
    BOUNDS_INPUTS = 12            /* how many there are */
};

enum bounds_mark {
    BOUNDS_EXACT,
    BOUNDS_LOWER,    /* the truth is the figure or more */
    BOUNDS_UNCERTAIN /* the truth may be less, too */
};

/* Sets of inputs: the figure is too low, too high, or either, when one of them is incomplete. */
struct bounds_column {
    const char *name;
    unsigned low, high, either;
};

/* NULL: no column of Summary. */
const struct bounds_column *bounds_find(const char *name);
/* missing: set of inputs. */
enum bounds_mark bounds_mark(const struct bounds_column *c, unsigned missing);
/* Those of missing that the column rests on. */
unsigned bounds_causes(const struct bounds_column *c, unsigned missing);
/* One input in words. */
const char *bounds_text(enum bounds_input input);

/* Inputs that are incomplete by a ring of LossLedger, a kind of PartialEvent, a category of Warning; 0: none. */
unsigned bounds_of_ring(const char *label);
unsigned bounds_of_partial(const char *kind);
unsigned bounds_of_warning(const char *category);

#endif
