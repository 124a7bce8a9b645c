/* Texts that stand for numbers after their first use. Up to PERFETTO_INTERN_MAX of them; later ones are not taken. */
#ifndef KYMO_FORMATS_PERFETTO_PERFETTO_INTERN_H
#define KYMO_FORMATS_PERFETTO_PERFETTO_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PERFETTO_INTERN_MAX 65536u

struct perfetto_intern {
    struct perfetto_interned *slots; /* open addressing, PERFETTO_INTERN_MAX * 2 of them */
    uint32_t count;
};

int perfetto_intern_init(struct perfetto_intern *t) KYMO_MUST_CHECK;
void perfetto_intern_done(struct perfetto_intern *t);
/* The text's number, counted from 1, or 0 when there is no room. *ret_new: first use. -ENOMEM. */
int perfetto_intern_find(struct perfetto_intern *t, const char *text, size_t n, uint64_t *ret_id,
                         bool *ret_new) KYMO_MUST_CHECK;

#endif
