/* Who may speak to the HTTP server: decisions over headers that anybody may have written. Pure. */
#ifndef KYMO_COLLECTOR_HTTP_GUARD_H
#define KYMO_COLLECTOR_HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_TOKEN_MIN 16
#define HTTP_TOKEN_MAX 512
#define HTTP_USER_MAX 64
#define HTTP_USER_LOCAL "local" /* whoever asks where no token is needed: may do everything, and is no token's name */
#define HTTP_TOKENS_MAX 64      /* lines */
#define HTTP_TOKEN_LINE_MAX (HTTP_USER_MAX + 64 + HTTP_TOKEN_MAX)

/*
 * The Host header names this machine's loopback (localhost, 127.0.0.0/8, [::1]) or one of the n names, with any port:
 * a tunnel may have another one. A page of somebody else whose name was made to lead here (DNS rebinding) has its own
 * name there.
 */
bool http_guard_host(const char *host, const char *const *names, size_t n);
/* The Origin header is of a page that this server sent: it names the same host and port. */
bool http_guard_origin(const char *origin, const char *host);
/* One of a text of tokens: a line "TOKEN", or "NAME TOKEN", whose user is NAME, else "token". Points into the text. */
struct http_token {
    const char *line, *name, *token;
    size_t line_n, name_n, token_n;
};
/* The next line that is not empty; *at moves on. */
bool http_guard_next_token(const char **at, struct http_token *ret);
/*
 * 1 to HTTP_TOKENS_MAX lines, each with HTTP_TOKEN_MIN to HTTP_TOKEN_MAX characters of a bearer token (RFC 6750); names
 * of 1 to HTTP_USER_MAX letters, digits, '.', '_', '-', and not HTTP_USER_LOCAL.
 */
bool http_guard_are_tokens(const char *tokens);
/* Which of them this is. Takes as long for each wrong one of its length. */
bool http_guard_find_token(const char *tokens, const char *token, struct http_token *ret);
/* The Authorization header (NULL: none) holds a token; one of them. */
bool http_guard_has_bearer(const char *authorization);
bool http_guard_authorized(const char *authorization, const char *tokens, struct http_token *ret);

#endif
