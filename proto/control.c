#include "proto/control.h"

#include <stdint.h>

#define D(name) &kymo__control__##name##__descriptor
#define COLLECTORS_MAX 8

static const struct wire_type types[] = {
    WIRE_COMMON_TYPES,
    {CONTROL_STATUS_REQUEST, WIRE_CLIENT, false, D(status_request)},
    {CONTROL_STATUS_REPLY, WIRE_SERVER, false, D(status_reply)},
    {CONTROL_CAPTURE_REQUEST, WIRE_CLIENT, false, D(capture_request)},
    {CONTROL_CAPTURE_PROGRESS, WIRE_SERVER, false, D(capture_progress)},
};

static const struct wire_bound bounds[] = {
    WIRE_COMMON_BOUNDS,
    {D(status_request), "request_id", true, 1, UINT64_MAX, 0},
    {D(status_request), "job", false, 1, WIRE_NAME_MAX, 0},
    {D(rank_status), "pid", false, 1, INT32_MAX, 0},
    {D(rank_status), "rank", false, 0, UINT32_MAX, 0},
    {D(rank_status), "cores", false, 0, UINT16_MAX, CONTROL_CORES_MAX},
    {D(rank_status), "state", false, 1, WIRE_ID_MAX, 0},
    {D(rank_status), "reason", false, 0, WIRE_TEXT_MAX, 0},
    {D(rank_status), "executions", false, 0, UINT64_MAX, 0},
    {D(rank_status), "captures", false, 0, UINT64_MAX, 0},
    {D(job_status), "job", true, 1, WIRE_NAME_MAX, 0},
    {D(job_status), "step", false, 0, UINT64_MAX, 0},
    {D(job_status), "ranks", false, 0, 0, CONTROL_RANKS_MAX},
    {D(collector_status), "address", true, 1, WIRE_NAME_MAX, 0},
    {D(collector_status), "state", false, 1, WIRE_ID_MAX, 0},
    {D(collector_status), "reason", false, 0, WIRE_TEXT_MAX, 0},
    {D(collector_status), "lag_bytes", false, 0, UINT64_MAX, 0},
    {D(collector_status), "retry_in_ms", false, 0, UINT64_MAX, 0},
    {D(status_reply), "request_id", true, 1, UINT64_MAX, 0},
    {D(status_reply), "version", false, 0, WIRE_ID_MAX, 0},
    {D(status_reply), "uptime_ms", false, 0, UINT64_MAX, 0},
    {D(status_reply), "captures", false, 0, UINT64_MAX, 0},
    {D(status_reply), "spool_bytes", false, 0, UINT64_MAX, 0},
    {D(status_reply), "spool_max_bytes", false, 0, UINT64_MAX, 0},
    {D(status_reply), "spool_state", false, 0, WIRE_TEXT_MAX, 0},
    {D(status_reply), "jobs", false, 0, 0, CONTROL_JOBS_MAX},
    {D(status_reply), "collectors", false, 0, 0, COLLECTORS_MAX},
    {D(capture_request), "request_id", true, 1, UINT64_MAX, 0},
    {D(capture_request), "job", false, 1, WIRE_NAME_MAX, 0},
    {D(capture_request), "pid", false, 1, INT32_MAX, 0},
    {D(capture_request), "cores", false, 0, UINT16_MAX, CONTROL_CORES_MAX},
    {D(capture_request), "mode", false, 1, WIRE_ID_MAX, 0},
    {D(capture_request), "step", false, 0, UINT64_MAX, 0},
    {D(capture_request), "wait_ms", false, 0, CONTROL_WAIT_MS_MAX, 0},
    {D(capture_progress), "request_id", true, 1, UINT64_MAX, 0},
    {D(capture_progress), "capture_id", false, 1, WIRE_ID_MAX, 0},
    {D(capture_progress), "now", true, 0, 1000, 0},
    {D(capture_progress), "text", false, 0, WIRE_TEXT_MAX, 0},
    {D(capture_progress), "last", false, 0, 1, 0},
};

const struct wire_protocol control_protocol = {
    .name = "control",
    .message_max = CONTROL_MESSAGE_MAX,
    .raw_max = 0,
    .types = types,
    .n_types = sizeof types / sizeof types[0],
    .bounds = bounds,
    .n_bounds = sizeof bounds / sizeof bounds[0],
};
