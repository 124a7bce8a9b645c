#include "daemon/hook_packet.h"

#include <string.h>

/* X(type, member) of what comes from hooks, each at least as long as version 1 says. */
#define FROM_HOOKS(X)                                                                                                  \
    X(HELLO, hello) X(STATE, state) X(LOADED, loaded) X(UNLOADED, unloaded) X(CAPTURED, captured) X(REFUSED, refused)

static size_t size_of(uint16_t type)
{
    switch (type) {
#define X(name, member)                                                                                                \
    case KYMO_HOOK_##name:                                                                                             \
        return sizeof((union hook_packet *)0)->member;
        FROM_HOOKS(X)
#undef X
    default:
        return 0;
    }
}

bool hook_packet_id_valid(const char *id)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strnlen(id, KYMO_HOOK_ID_MAX);
    return n > 0 && n < KYMO_HOOK_ID_MAX && id[0] != '.' && strspn(id, allowed) == n;
}

static bool ends(const char *text, size_t n)
{
    return memchr(text, '\0', n) != NULL;
}

static bool is_sound(const union hook_packet *p)
{
    switch (p->header.type) {
    case KYMO_HOOK_HELLO:
        return ends(p->hello.hook_version, sizeof p->hello.hook_version) &&
               ends(p->hello.program, sizeof p->hello.program);
    case KYMO_HOOK_STATE:
        return p->state.state <= KYMO_HOOK_RUN_CLOSED && p->state.armed < KYMO_HOOK_MODE_COUNT;
    case KYMO_HOOK_LOADED:
        return p->loaded.model != 0;
    case KYMO_HOOK_CAPTURED:
        return hook_packet_id_valid(p->captured.id) && p->captured.mode < KYMO_HOOK_MODE_COUNT;
    case KYMO_HOOK_REFUSED:
        /* A later hook may have reasons that we do not know; its text says what they are. */
        return (p->refused.id[0] == '\0' || hook_packet_id_valid(p->refused.id)) &&
               ends(p->refused.text, sizeof p->refused.text);
    default:
        return true;
    }
}

int hook_packet_parse(const void *data, size_t n, size_t length, union hook_packet *ret, struct kymo_err *err)
{
    union hook_packet p = {0};
    if (length > KYMO_HOOK_PACKET_MAX || n != length || n < sizeof p.header)
        return kymo_err_set(err, -EPROTO, "a packet of %zu bytes", length);
    memcpy(&p.header, data, sizeof p.header);
    if (p.header.size != length)
        return kymo_err_set(err, -EPROTO, "a packet of %zu bytes that claims %u", length, p.header.size);
    size_t known = size_of(p.header.type);
    if (known == 0)
        return 0;
    if (n < known)
        return kymo_err_set(err, -EPROTO, "type %u with %zu bytes, less than %zu", p.header.type, n, known);
    memcpy(&p, data, known);
    if (!is_sound(&p))
        return kymo_err_set(err, -EPROTO, "type %u with a member that makes no sense", p.header.type);
    *ret = p;
    return 1;
}

const char *hook_packet_reason(uint32_t reason)
{
    static const char *const texts[KYMO_HOOK_REASON_COUNT] = {
#define X(name, number, text) [number] = (text),
        KYMO_HOOK_REASON_MAP(X)
#undef X
    };
    return reason < KYMO_HOOK_REASON_COUNT ? texts[reason] : "unknown";
}

static const char *const modes[KYMO_HOOK_MODE_COUNT] = {
#define X(name, number, text) [number] = (text),
    KYMO_HOOK_MODE_MAP(X)
#undef X
};

const char *hook_packet_mode(uint32_t mode)
{
    return mode < KYMO_HOOK_MODE_COUNT ? modes[mode] : "unknown";
}

enum kymo_hook_mode hook_packet_mode_of(const char *name)
{
    unsigned i = 0;
    while (i < KYMO_HOOK_MODE_COUNT && strcmp(modes[i], name) != 0)
        i++;
    return (enum kymo_hook_mode)i;
}
