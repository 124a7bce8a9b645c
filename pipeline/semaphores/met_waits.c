#include "pipeline/semaphores/met_waits.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/flow/flow_history.h"
#include "pipeline/spill/spill.h"

#define HELD 64 /* records that a younger instruction may still ask for; beyond, the oldest is given up */

struct met_wait {
    uint64_t ps;
    int64_t target;
};

struct met_waits {
    struct spill *spill;
    struct spill_reader reader;
    bool more; /* the reader is not at its end */
    struct met_wait held[HELD];
    size_t count;
};

int met_waits_open(const char *dir, struct met_waits **ret, struct kymo_err *err)
{
    struct met_waits *m = KYMO_NEW(struct met_waits);
    if (!m)
        return kymo_err_set(err, -ENOMEM, "no memory for the met waits of an engine");
    int r = spill_open(dir, sizeof(struct met_wait), &m->spill, err);
    if (r < 0)
        m = met_waits_free(m);
    *ret = m;
    return r;
}

struct met_waits *met_waits_free(struct met_waits *m)
{
    if (!m)
        return NULL;
    spill_reader_done(&m->reader);
    spill_free(m->spill);
    kymo_free(m);
    return NULL;
}

int met_waits_add(struct met_waits *m, uint64_t ps, int target, struct kymo_err *err)
{
    return spill_append(m->spill, &(struct met_wait){ps, target}, err);
}

int met_waits_seal(struct met_waits *m, struct kymo_err *err)
{
    int r = spill_seal(m->spill, err);
    m->more = true;
    return r < 0 ? r : spill_reader_init(&m->reader, m->spill, err);
}

int met_waits_target(const uint8_t rec[KYMO_INSTR_SIZE])
{
    struct kymo_sync sync = kymo_instr_sync(rec), second;
    if (kymo_instr_sync2(rec, &second) && flow_waits(&second))
        return (int)flow_target_of_wait(&second);
    return flow_waits(&sync) ? (int)flow_target_of_wait(&sync) : MET_WAITS_ANY;
}

static void take_out(struct met_waits *m, size_t at)
{
    m->count--;
    memmove(m->held + at, m->held + at + 1, (m->count - at) * sizeof *m->held);
}

/* Forgets what is before from, and holds all up to end. Nobody asks for what is before from any more, because counters
 * that are at their end have all counted the same. */
static int hold(struct met_waits *m, uint64_t from_ps, uint64_t end_ps, struct kymo_err *err)
{
    while (m->count && m->held[0].ps < from_ps)
        take_out(m, 0);
    while (m->more && (!m->count || m->held[m->count - 1].ps <= end_ps)) {
        const void *next;
        int r = spill_reader_next(&m->reader, &next, err);
        if (r < 0)
            return r;
        m->more = r > 0;
        if (!m->more || ((const struct met_wait *)next)->ps < from_ps)
            continue;
        if (m->count == HELD)
            take_out(m, 0);
        m->held[m->count++] = *(const struct met_wait *)next;
    }
    return 0;
}

int met_waits_find(struct met_waits *m, int target, uint64_t start_ps, double counted_ns, uint64_t end_ps,
                   uint64_t *ret_ps, struct kymo_err *err)
{
    uint64_t counted = (uint64_t)(counted_ns * 1000);
    uint64_t from = start_ps + (counted > MET_WAITS_SLACK_PS ? counted - MET_WAITS_SLACK_PS : 0);
    int r = m ? hold(m, from, end_ps, err) : 0;
    if (r < 0)
        return r;
    for (size_t i = 0; m && i < m->count && m->held[i].ps <= end_ps; i++) {
        if (target != MET_WAITS_ANY && m->held[i].target != target)
            continue;
        *ret_ps = m->held[i].ps;
        take_out(m, i);
        return 1;
    }
    return 0;
}

void met_waits_warn(struct warnings *w, const char *what, uint64_t beyond, uint64_t untold)
{
    if (beyond)
        warnings_add(w, "Semaphore waits",
                     "%llu %s waited for 65,535 cycles or more, which is all that a start record can count: their "
                     "evt_wait_time_ns is a lower bound; active times rest on the records of the met waits",
                     (unsigned long long)beyond, what);
    if (untold)
        warnings_add(
            w, "Upper bounds",
            "no record tells when the waits of %llu %s were met that waited for 65,535 cycles or more (records "
            "of semaphores were lost, or not captured): what they waited beyond that counts as active, so "
            "active times are upper bounds",
            (unsigned long long)untold, what);
}
