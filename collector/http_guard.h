/* Who may speak to the HTTP server: decisions over headers that anybody may have written. Pure. */
#ifndef KYMO_COLLECTOR_HTTP_GUARD_H
#define KYMO_COLLECTOR_HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_TOKEN_MIN 16
#define HTTP_TOKEN_MAX 512

/*
 * The Host header names this machine's loopback (localhost, 127.0.0.0/8, [::1]) or one of the n names, with any port:
 * a tunnel may have another one. A page of somebody else whose name was made to lead here (DNS rebinding) has its own
 * name there.
 */
bool http_guard_host(const char *host, const char *const *names, size_t n);
/* The Origin header is of a page that this server sent: it names the same host and port. */
bool http_guard_origin(const char *origin, const char *host);
/* HTTP_TOKEN_MIN to HTTP_TOKEN_MAX characters of a bearer token (RFC 6750). */
bool http_guard_is_token(const char *token);
/* The Authorization header (NULL: none) holds this token. Takes as long for each wrong one of its length. */
bool http_guard_authorized(const char *authorization, const char *token);

#endif
