/* Metrics in Prometheus' text format (0.0.4), one family after the other, into a buffer. Not thread-safe. */
#ifndef KYMO_BASE_PROM_H
#define KYMO_BASE_PROM_H

#include <stdint.h>

#include "base/buf.h"

#define PROM_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct prom {
    struct kymo_buf *buf;
    int failed; /* the first failure of the buffer; what follows it is dropped */
    const char *name;
};

/* Begins a family: type is "counter", "gauge" or "histogram"; name and help are ours and need no escapes. */
void prom_family(struct prom *p, const char *name, const char *type, const char *help);
/* One value of it. label NULL: none; its value may be anything: no UTF-8 becomes '?'. */
void prom_value(struct prom *p, uint64_t value, const char *label, const char *label_value);
void prom_seconds(struct prom *p, uint64_t ns, const char *label, const char *label_value);
/* A histogram's bucket (le: its upper end in seconds, "+Inf" for the last) and, behind the buckets, its sum and count.
 */
void prom_bucket(struct prom *p, uint64_t value, const char *label, const char *label_value, const char *le);
void prom_sum(struct prom *p, uint64_t sum_ns, uint64_t count, const char *label, const char *label_value);
/* A family of one value. */
void prom_counter(struct prom *p, const char *name, uint64_t value, const char *help);
void prom_gauge(struct prom *p, const char *name, uint64_t value, const char *help);

#endif
