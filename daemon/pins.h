/*
 * Programs that the spool keeps because processes have them loaded, by user: one user's may not be without end, and one
 * that many of his ranks have loaded counts once. Belongs to the loop's thread.
 */
#ifndef KYMO_DAEMON_PINS_H
#define KYMO_DAEMON_PINS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hash.h"

struct pin;
struct pins {
    struct pin *first;
};

/* limit: bytes of this user's together; 0: none. -EDQUOT beyond it. */
int pins_hold(struct pins *p, uid_t uid, const uint8_t sha256[KYMO_SHA256_SIZE], uint64_t bytes, uint64_t limit,
              struct kymo_err *err) KYMO_MUST_CHECK;
void pins_release(struct pins *p, uid_t uid, const uint8_t sha256[KYMO_SHA256_SIZE]); /* one that is not held is fine */
uint64_t pins_bytes(const struct pins *p, uid_t uid);
void pins_clear(struct pins *p);

#endif
