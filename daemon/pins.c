#include "daemon/pins.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"

struct pin {
    struct pin *next;
    uid_t uid;
    uint8_t sha256[KYMO_SHA256_SIZE];
    uint64_t bytes;
    size_t holders;
};

static struct pin **find(struct pins *p, uid_t uid, const uint8_t sha256[KYMO_SHA256_SIZE])
{
    struct pin **at = &p->first;
    while (*at && ((*at)->uid != uid || memcmp((*at)->sha256, sha256, KYMO_SHA256_SIZE) != 0))
        at = &(*at)->next;
    return at;
}

uint64_t pins_bytes(const struct pins *p, uid_t uid)
{
    uint64_t sum = 0;
    for (const struct pin *i = p->first; i; i = i->next)
        sum += i->uid == uid ? i->bytes : 0;
    return sum;
}

int pins_hold(struct pins *p, uid_t uid, const uint8_t sha256[KYMO_SHA256_SIZE], uint64_t bytes, uint64_t limit,
              struct kymo_err *err)
{
    struct pin **at = find(p, uid, sha256);
    if (*at) {
        (*at)->holders++;
        return 0;
    }
    uint64_t held = pins_bytes(p, uid);
    if (limit > 0 && (held > limit || bytes > limit - held))
        return kymo_err_set(
            err, -EDQUOT, "user %u has %llu bytes of programs loaded, this one has %llu, the limit is %llu",
            (unsigned)uid, (unsigned long long)held, (unsigned long long)bytes, (unsigned long long)limit);
    struct pin *new = KYMO_NEW(struct pin);
    if (!new)
        return kymo_err_set(err, -ENOMEM, "no memory for a program");
    *new = (struct pin){.uid = uid, .bytes = bytes, .holders = 1};
    memcpy(new->sha256, sha256, KYMO_SHA256_SIZE);
    *at = new;
    return 0;
}

void pins_release(struct pins *p, uid_t uid, const uint8_t sha256[KYMO_SHA256_SIZE])
{
    struct pin **at = find(p, uid, sha256), *pin = *at;
    if (!pin || --pin->holders > 0)
        return;
    *at = pin->next;
    kymo_free(pin);
}

void pins_clear(struct pins *p)
{
    for (struct pin *i = p->first, *next; i; i = next) {
        next = i->next;
        kymo_free(i);
    }
    p->first = NULL;
}
