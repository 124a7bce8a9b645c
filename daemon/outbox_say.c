#include "daemon/outbox_say.h"

#include <stdio.h>
#include <string.h>

#include "daemon/outbox_words.h"

static void say_spool(struct outbox_say *s, const struct outbox_status *now)
{
    const char *state = outbox_spool_state(now);
    char reason[OUTBOX_REASON_SIZE];
    if (!strcmp(state, s->spool) || (!s->spool[0] && !strcmp(state, "ok")))
        return;
    (void)snprintf(s->spool, sizeof s->spool, "%s", state);
    outbox_spool_reason(now, reason);
    if (!strcmp(state, "ok"))
        say_limited(&s->limit, KYMO_LOG_INFO, "the spool is ok again");
    else
        say_limited(&s->limit, KYMO_LOG_WARNING, "the spool is %s%s%s", state, reason[0] ? ": " : "", reason);
}

static void say_link(struct outbox_say *s, size_t i, const struct outbox_link_status *l)
{
    if (strcmp(s->links[i].address, l->address) != 0) {
        memset(&s->links[i], 0, sizeof s->links[i]);
        (void)snprintf(s->links[i].address, sizeof s->links[i].address, "%s", l->address);
    }
    if (l->state == OUTBOX_LINK_UP) {
        if (!s->links[i].was_up)
            say_limited(&s->limit, KYMO_LOG_INFO, "collector %s: connected", l->address);
        s->links[i].was_up = true;
        s->links[i].reason[0] = '\0';
    } else if (l->state == OUTBOX_LINK_WAITING && l->reason[0]) {
        s->links[i].was_up = false;
        if (strcmp(s->links[i].reason, l->reason) == 0)
            return;
        (void)snprintf(s->links[i].reason, sizeof s->links[i].reason, "%s", l->reason);
        say_limited(&s->limit, KYMO_LOG_WARNING, "collector %s: no connection: %s", l->address, l->reason);
    }
}

void outbox_say_changes(struct outbox_say *s, struct outbox *o)
{
    struct outbox_status now;
    outbox_get_status(o, &now);
    say_spool(s, &now);
    for (size_t i = 0; i < now.nlinks && i < OUTBOX_COLLECTORS_MAX; i++)
        say_link(s, i, &now.links[i]);
}
