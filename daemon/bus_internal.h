/* Between the files of bus.h: the connection in bus.c, the interface in bus_api.c. */
#ifndef KYMO_DAEMON_BUS_INTERNAL_H
#define KYMO_DAEMON_BUS_INTERNAL_H

#include <stdbool.h>

#include <systemd/sd-bus.h>

#include "daemon/bus.h"

struct bus_request { /* waits for its sender's credentials */
    struct bus *bus;
    sd_bus_message *message;
    sd_bus_slot *slot;
};

struct bus_ask { /* a caller who is told of the end of his captures */
    struct bus *bus;
    char sender[256];
    bool used, until_sent;
    struct captures_ask *ask;
};

struct bus {
    struct bus_config config;
    bool has_group;
    gid_t group;
    uint64_t started_ms;
    sd_bus *bus; /* NULL: not connected */
    char why[KYMO_ERR_TEXT_MAX];
    bool told, was_up; /* of the state that was told last */
    struct bus_request requests[BUS_REQUESTS_MAX];
    struct bus_ask asks[BUS_ASKS_MAX];

    uv_prepare_t prepare;
    uv_timer_t timer; /* of sd-bus while connected, else until the next attempt */
    uv_poll_t poll;
    int polled; /* events */
    bool has_poll, closing, broken;
    unsigned handles;
    uint64_t retry_ms;
};

/* The interface's table, on a fresh connection. */
int bus_api_add(struct bus *b);
/* Nobody waits any more: the connection is over. */
void bus_api_drop(struct bus *b);

#endif
