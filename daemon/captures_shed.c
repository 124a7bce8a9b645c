/* What is not begun since kymod costs too much is as lost as what was dropped, and has its rows in the same place. */
#include "daemon/captures_internal.h"

#define AT_ONCE 16 /* each syncs; captures that were taken shall not wait behind them */

void captures_tell_shed(struct captures *c)
{
    char id[KYMO_HOOK_ID_MAX];
    for (int i = 0; i < AT_ONCE && c->shed_waiting > 0 && c->outbox && !c->stopping; i++) {
        uint64_t ticket;
        struct kymo_err err = {0};
        captures_make_id(c, "", id);
        int r = outbox_lost(c->outbox, id, SPOOL_SHED, NULL, &ticket, &err);
        if (r < 0) {
            say_limited(&c->say, KYMO_LOG_WARNING, "shed captures wait for their loss rows: %s", err.text);
            return;
        }
        c->shed_waiting--;
    }
}

void captures_shed(struct captures *c, uint64_t n)
{
    bool is_first = c->shed_waiting == 0;
    own_cost_shed(c->cost, n);
    c->shed_waiting += n;
    if (is_first)
        captures_tell_shed(c);
    captures_kick(c);
}
