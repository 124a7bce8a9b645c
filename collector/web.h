/*
 * The HTTP server and its API (http.h, api.h) joined to the rest of the collector: figures, hosts, capture requests
 * from the receiver, reprocessing by the store's thread. All on the loop's thread.
 */
#ifndef KYMO_COLLECTOR_WEB_H
#define KYMO_COLLECTOR_WEB_H

#include "collector/collector_config.h"
#include "collector/http.h"
#include "collector/receiver.h"

struct web;

/* settings are used during the call only. */
int web_new(uv_loop_t *loop, struct net *net, const struct collector_settings *settings, struct receiver *receiver,
            struct store_thread *store, struct web **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Listens no more; what is under way is answered. Before receiver_stop. */
void web_close(struct web *w);
/* When the store's thread has ended. NULL is fine; returns NULL. */
struct web *web_free(struct web *w);
int web_port(const struct web *w);

/* Certificate and token of settings that are read again; nothing changes yet. -EINVAL: TLS cannot come or go while it
 * runs. */
struct web_secrets;
int web_secrets_read(const struct web *w, const struct collector_settings *settings, struct web_secrets **ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;
struct web_secrets *web_secrets_free(struct web_secrets *s); /* NULL is fine; returns NULL */
/* From now on they hold: for new connections, and for the next request. */
void web_secrets_take(struct web *w, struct web_secrets *s);

/* What the store's thread says (store_thread.h), for the figures. */
void web_profile_changed(struct web *w, const struct catalog_profile *p);
void web_trouble(struct web *w, const char *text); /* NULL: it is over */

#endif
