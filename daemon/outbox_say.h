/* What kymod's log tells of its spool and its links to collectors: each change of state or reason, at a bounded rate.
 */
#ifndef KYMO_DAEMON_OUTBOX_SAY_H
#define KYMO_DAEMON_OUTBOX_SAY_H

#include "daemon/outbox.h"
#include "daemon/say.h"

struct outbox_say {
    struct say_limit limit;
    char spool[16];
    struct {
        char address[NET_HOST_MAX + 8], reason[KYMO_ERR_TEXT_MAX];
        bool was_up;
    } links[OUTBOX_COLLECTORS_MAX];
};

/* Zeroed before the first call. */
void outbox_say_changes(struct outbox_say *s, struct outbox *o);

#endif
