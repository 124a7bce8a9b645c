/* The daemon's parts as kymod puts them together, in a temporary directory, with a loop that tests turn. */
#ifndef KYMO_TESTS_UNIT_DAEMON_WORLD_H
#define KYMO_TESTS_UNIT_DAEMON_WORLD_H

#include <stdbool.h>

#include <uv.h>

#include "daemon/captures.h"
#include "daemon/config.h"
#include "daemon/hook_server.h"
#include "daemon/host.h"
#include "daemon/jobs.h"
#include "daemon/learned.h"
#include "daemon/outbox.h"
#include "proto/manifest.pb-c.h"
#include "tests/unit/hook_client.h"

#define WORLD_TOLD 64

struct world {
    uv_loop_t loop;
    char dir[64], socket[96], intake[96], spool[96], learned_path[96], config_path[96];
    struct config *config;
    struct host host;
    struct learned *learned;
    struct captures *captures;
    struct jobs *jobs;
    struct outbox *outbox;
    struct hook_server *hooks;
    bool is_up;

    /* What a watcher was told. */
    size_t ntold;
    struct {
        char id[KYMO_HOOK_ID_MAX];
        enum captures_state state;
        char text[256];
        bool last;
    } told[WORLD_TOLD];
};

/* Makes the directory; settings are lines of a configuration file. */
struct world *world_new(const char *settings);
void world_up(struct world *w);
void world_down(struct world *w); /* the directory stays: another world_up is a restart */
struct world *world_free(struct world *w);
void world_reload(struct world *w, const char *settings);

/* Turns the loop, and the client's ear, until holds(w, c) or ms are over: then false. */
typedef bool world_holds(const struct world *w, const struct hook_client *c);
bool world_until(struct world *w, struct hook_client *c, world_holds *holds, unsigned ms);
void world_turn(struct world *w, struct hook_client *c, unsigned ms);

captures_watch world_watch;                                               /* with the world as context */
const char *world_text(const struct world *w, enum captures_state state); /* of the last such word; NULL: none */

/* The manifest of a capture in the spool; NULL: it is not there. */
Kymo__Manifest__Capture *world_manifest(const struct world *w, const char *id);
struct spool_status world_spool(const struct world *w);
bool world_intake_is_empty(const struct world *w);

/* A client that is welcome: connected, greeted, ready. */
void world_join(struct world *w, struct hook_client *c);

#endif
