/*
 * The loss rows of the spool on their way to a collector that understands them (version 2 of the uplink). One batch at
 * a time; a row leaves the spool once a collector has it durably. On the outbox's loop.
 */
#ifndef KYMO_DAEMON_OUTBOX_LOSSES_H
#define KYMO_DAEMON_OUTBOX_LOSSES_H

#include "daemon/spool/spool.h"
#include "proto/uplink_send.h"

#define OUTBOX_LOSSES_BATCH 64

struct outbox_losses {
    uint64_t batch; /* under way; 0: none */
    uint64_t again_ms;
    size_t n;
    struct spool_loss rows[OUTBOX_LOSSES_BATCH]; /* of the batch, as sent */
};

/* Sends what there is, if nothing is under way; one without an answer is sent again after patience_ms. True: sent. */
bool outbox_losses_tell(struct outbox_losses *l, const struct spool *s, struct uplink_send *send, uint64_t now_ms,
                        uint64_t patience_ms);
/* The collector has the batch. */
void outbox_losses_kept(struct outbox_losses *l, struct spool *s, uint64_t batch);
/* The connection is gone: what was under way has to be sent again. */
void outbox_losses_reset(struct outbox_losses *l);

#endif
