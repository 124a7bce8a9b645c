/*
 * The daemon's view of one packet from a hook: held to proto/HOOK.md before anybody looks at its members. Pure.
 */
#ifndef KYMO_DAEMON_HOOK_PACKET_H
#define KYMO_DAEMON_HOOK_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/hook.h"

union hook_packet {
    struct kymo_hook_header header;
    struct kymo_hook_hello hello;
    struct kymo_hook_state_msg state;
    struct kymo_hook_loaded loaded;
    struct kymo_hook_unloaded unloaded;
    struct kymo_hook_captured captured;
    struct kymo_hook_refused refused;
};

/*
 * data: what was received, at most KYMO_HOOK_PACKET_MAX bytes; length: of the packet itself. 1: *ret is one of the
 * types above, with texts that end, known modes and states, ids that are valid or empty; 0: a type to be skipped;
 * -EPROTO with the reason: the connection is to end.
 */
int hook_packet_parse(const void *data, size_t n, size_t length, union hook_packet *ret,
                      struct kymo_err *err) KYMO_MUST_CHECK;

bool hook_packet_id_valid(const char *id); /* of a capture, with its end within KYMO_HOOK_ID_MAX */

const char *hook_packet_reason(uint32_t reason); /* for people */
const char *hook_packet_mode(uint32_t mode);     /* as manifests name it */
/* KYMO_HOOK_MODE_COUNT: no mode has this name. */
enum kymo_hook_mode hook_packet_mode_of(const char *name);

#endif
