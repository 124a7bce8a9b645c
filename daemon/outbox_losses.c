#include "daemon/outbox_losses.h"

_Static_assert(SPOOL_CAUSE_NAME_SIZE <= WIRE_ID_MAX + 1, "the name of a cause fits an id of the wire");

static void fill_row(Kymo__Uplink__HostLoss *m, const struct spool_loss *row, char cause[static WIRE_ID_MAX + 1])
{
    kymo__uplink__host_loss__init(m);
    (void)spool_cause_text(row->cause, cause);
    m->has_row = m->has_first_seq = m->has_last_seq = m->has_captures = m->has_bytes = 1;
    m->has_first_unix_ns = m->has_last_unix_ns = 1;
    m->row = row->row;
    m->first_seq = row->first_seq;
    m->last_seq = row->last_seq;
    m->captures = row->captures;
    m->bytes = row->bytes;
    m->first_unix_ns = row->first_ns;
    /* A clock that was set back meanwhile leaves no range. */
    m->last_unix_ns = row->last_ns > row->first_ns ? row->last_ns : row->first_ns;
    m->cause = cause;
}

bool outbox_losses_tell(struct outbox_losses *l, const struct spool *s, struct uplink_send *send, uint64_t now_ms,
                        uint64_t patience_ms)
{
    Kymo__Uplink__HostLoss rows[OUTBOX_LOSSES_BATCH];
    char causes[OUTBOX_LOSSES_BATCH][WIRE_ID_MAX + 1];
    if (session_version(uplink_send_session(send)) < UPLINK_VERSION_HOST_LOSSES)
        return false;
    if (l->again_ms > now_ms)
        return false;
    size_t n = spool_losses(s, l->rows, OUTBOX_LOSSES_BATCH);
    for (size_t i = 0; i < n; i++)
        fill_row(&rows[i], &l->rows[i], causes[i]);
    l->n = n;
    l->batch = 0;
    if (n == 0 || uplink_send_losses(send, rows, n, &l->batch, NULL) < 0)
        return false;
    l->again_ms = now_ms + patience_ms;
    return true;
}

void outbox_losses_kept(struct outbox_losses *l, struct spool *s, uint64_t batch)
{
    if (batch != l->batch)
        return;
    /* A row whose report cannot be written down is sent again, and the collector knows it by its numbers. */
    int r = 0;
    for (size_t i = 0; i < l->n && r == 0; i++)
        r = spool_loss_reported(s, &l->rows[i], NULL);
    l->batch = 0;
    if (r == 0)
        l->again_ms = 0;
}

void outbox_losses_reset(struct outbox_losses *l)
{
    l->batch = l->again_ms = 0;
}
