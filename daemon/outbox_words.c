#include "daemon/outbox_words.h"

#include <stdio.h>

const char *outbox_spool_state(const struct outbox_status *o)
{
    bool full = o->spool.full || o->spool.below_floor;
    return o->spool.stopped ? "stopped" : o->trouble[0] ? "broken" : full ? "full" : "ok";
}

void outbox_spool_reason(const struct outbox_status *o, char ret[static OUTBOX_REASON_SIZE])
{
    const struct spool_status *s = &o->spool;
    unsigned long long free_bytes = s->free_bytes, floor = s->floor_bytes;
    ret[0] = '\0';
    if (s->stopped)
        (void)snprintf(ret, OUTBOX_REASON_SIZE, "it was full; it takes captures again when a quarter of it is free");
    else if (o->trouble[0])
        (void)snprintf(ret, OUTBOX_REASON_SIZE, "%s", o->trouble);
    else if (s->fs_bytes > 0 && s->fs_bytes < s->floor_bytes)
        (void)snprintf(ret, OUTBOX_REASON_SIZE,
                       "spool-floor %llu exceeds the file system's %llu bytes (%llu free): lower it", floor,
                       (unsigned long long)s->fs_bytes, free_bytes);
    else if (s->below_floor || s->full)
        (void)snprintf(ret, OUTBOX_REASON_SIZE, "%llu bytes free, spool-floor %llu: make room or lower it", free_bytes,
                       floor);
}
