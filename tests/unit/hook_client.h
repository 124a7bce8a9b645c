/* Stands in for libkymo-hook.so towards kymod: says what it is told, also badly, and keeps what it hears. Never waits.
 */
#ifndef KYMO_TESTS_UNIT_HOOK_CLIENT_H
#define KYMO_TESTS_UNIT_HOOK_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/hook.h"

struct hook_client {
    int fd, page_fd, intake;
    uint64_t seq;
    struct kymo_hook_page *page;
    unsigned policies; /* heard so far */
    struct kymo_hook_policy policy;
    unsigned neffs_done; /* NEFF_DONE heard */
    bool closed;
};

/* Connects, with a page; says nothing yet. False: nobody listens. */
bool hook_client_open(struct hook_client *c, const char *socket_path);
void hook_client_close(struct hook_client *c);

void hook_client_hello(struct hook_client *c, uint32_t flags);
void hook_client_state(struct hook_client *c, uint32_t state);
/* data NULL: no descriptor. */
void hook_client_loaded(struct hook_client *c, uint32_t model, int32_t vnc, const void *data, size_t n);
void hook_client_captured(struct hook_client *c, const char *id, uint32_t mode, uint32_t model);
void hook_client_refused(struct hook_client *c, const char *id, uint32_t reason, const char *text);
/* Any bytes, with any descriptor. */
bool hook_client_send(struct hook_client *c, const void *data, size_t n, int fd);
/* A structure with its header filled in. */
bool hook_client_say(struct hook_client *c, uint16_t type, void *packet, uint32_t size, int fd);

/* Hears what has come. */
void hook_client_poll(struct hook_client *c);

/* A capture in the intake: <name>/<file> with text; file may name a folder before it. */
void hook_client_write(struct hook_client *c, const char *name, const char *file, const char *text);

int hook_client_memfd(const void *data, size_t n, unsigned seals);

#endif
