/* The control socket's messages as tables (wire.h): control.proto with its bounds. Both ends speak through session.h.
 */
#ifndef KYMO_PROTO_CONTROL_H
#define KYMO_PROTO_CONTROL_H

#include "proto/control.pb-c.h"
#include "proto/wire.h"

enum control_type {
    CONTROL_STATUS_REQUEST = 64,
    CONTROL_STATUS_REPLY = 65,
    CONTROL_CAPTURE_REQUEST = 66,
    CONTROL_CAPTURE_PROGRESS = 67,
};

#define CONTROL_SOCKET_NAME "control.sock"

#define CONTROL_VERSION_MIN 1
#define CONTROL_VERSION_MAX 2
#define CONTROL_MESSAGE_MAX (256u << 10)
#define CONTROL_JOBS_MAX 256
#define CONTROL_RANKS_MAX 1024 /* of one job */
#define CONTROL_CORES_MAX 1024
#define CONTROL_WAIT_MS_MAX (24ull * 3600 * 1000)

extern const struct wire_protocol control_protocol;

#endif
