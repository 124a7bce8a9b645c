/* The state of the spool in words, for whoever shows it. */
#ifndef KYMO_DAEMON_OUTBOX_WORDS_H
#define KYMO_DAEMON_OUTBOX_WORDS_H

#include "daemon/outbox.h"

#define OUTBOX_REASON_SIZE (KYMO_ERR_TEXT_MAX + 128)

const char *outbox_spool_state(const struct outbox_status *o); /* ok, full, stopped, broken */
/* Why it is not ok, and what would help; "": it is, or nothing is known. */
void outbox_spool_reason(const struct outbox_status *o, char ret[static OUTBOX_REASON_SIZE]);

#endif
