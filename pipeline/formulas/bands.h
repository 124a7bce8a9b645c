/*
 * Bands of one kind on one core: ranges of time that come in order of start and become one where they are near each
 * other. More than a maximum are joined, nearest first, by doubling the distance that counts as near. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_BANDS_H
#define KYMO_PIPELINE_BANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct band {
    int64_t start, end; /* ns */
    uint64_t count;     /* events */
    double part, whole; /* sums that make its share */
};

struct bands {
    struct band *rows;
    size_t count, cap, max;
    int64_t near;
    uint64_t joined; /* times that the maximum joined bands that were apart */
};

void bands_init(struct bands *b, int64_t near, size_t max);
void bands_done(struct bands *b);
int bands_add(struct bands *b, struct band one, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Shares over windows of fixed width: a window whose part is more than limit percent of its whole is a band from its
 * first to its last event with a part.
 */
struct shares {
    struct bands bands;
    int64_t width, window;
    double limit;
    struct band sum;
    bool any; /* the window has an event with a part */
};
void shares_init(struct shares *s, int64_t width, double limit, size_t max);
void shares_done(struct shares *s);
/* Events in order of start. part 0: it counts for the whole alone. */
int shares_add(struct shares *s, int64_t start, int64_t end, double part, double whole,
               struct kymo_err *err) KYMO_MUST_CHECK;
int shares_finish(struct shares *s, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Crowds: at least `need` marked events that start within a window, and are at least `percent` of all events that start
 * between the first and the last of them.
 */
struct crowd_mark {
    int64_t start;
    uint64_t place; /* among all events */
};
struct crowds {
    struct bands bands;
    struct crowd_mark *last; /* the newest `need` marked ones */
    size_t need;
    int64_t width;
    unsigned percent;
    uint64_t events, marked, counted; /* counted: marked ones that bands have */
};
int crowds_init(struct crowds *c, size_t need, int64_t width, unsigned percent, size_t max,
                struct kymo_err *err) KYMO_MUST_CHECK;
void crowds_done(struct crowds *c);
int crowds_add(struct crowds *c, int64_t start, int64_t end, bool marked, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
