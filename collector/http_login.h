/*
 * Browsers with a token: a form, and the cookie that a right token gives (README.md). The cookie is the end of its time
 * and a hash of that and of the token, keyed by this process; nothing is kept of it here.
 */
#ifndef KYMO_COLLECTOR_HTTP_LOGIN_H
#define KYMO_COLLECTOR_HTTP_LOGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/http_guard.h"

#define HTTP_LOGIN_KEY 32
#define HTTP_LOGIN_SECONDS (7 * 86400)
#define HTTP_LOGIN_VALUE_MAX 96

struct MHD_Response;
struct http_request;

/* The cookie's value for the token on one line of tokens (http_guard.h). */
void http_login_value(const uint8_t key[static HTTP_LOGIN_KEY], const char *line, size_t n, uint64_t expires_s,
                      char ret[static HTTP_LOGIN_VALUE_MAX]);
/* Whether a Cookie header (NULL: none) has a cookie of this name that one of the tokens gave and that is still good. */
bool http_login_find(const uint8_t key[static HTTP_LOGIN_KEY], const char *cookies, const char *name,
                     const char *tokens, uint64_t now_s, char ret_user[static HTTP_USER_MAX + 1]);

/* The form, at the page's own address or elsewhere, with a reason or NULL. NULL without memory. */
struct MHD_Response *http_login_form(bool root, const char *reason);
/* Handlers. */
void http_login_post(void *ctx, struct http_request *q);
void http_logout_post(void *ctx, struct http_request *q);

#endif
