#include "collector/http_login.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collector/http_impl.h"

#define HASH 32
#define FORM_TYPE "application/x-www-form-urlencoded"

void http_login_value(const uint8_t key[static HTTP_LOGIN_KEY], const char *line, size_t n, uint64_t expires_s,
                      char ret[static HTTP_LOGIN_VALUE_MAX])
{
    uint8_t text[HTTP_TOKEN_LINE_MAX + 32] = {0}, hash[EVP_MAX_MD_SIZE] = {0};
    unsigned len = 0;
    int head = snprintf((char *)text, 32, "kymo login %016" PRIx64 " ", expires_s);
    n = n > HTTP_TOKEN_LINE_MAX ? HTTP_TOKEN_LINE_MAX : n;
    memcpy(text + head, line, n);
    (void)HMAC(EVP_sha256(), key, HTTP_LOGIN_KEY, text, (size_t)head + n, hash, &len);
    int at = snprintf(ret, HTTP_LOGIN_VALUE_MAX, "%016" PRIx64 ".", expires_s);
    for (size_t i = 0; i < HASH; i++, at += 2)
        (void)snprintf(ret + at, 3, "%02x", hash[i]);
    OPENSSL_cleanse(text, sizeof text);
}

/* Whether n bytes are a value that one of the tokens gave. */
static bool is_good(const uint8_t *key, const char *value, size_t n, const char *tokens, uint64_t now_s, char *ret_user)
{
    char end[17] = "", want[HTTP_LOGIN_VALUE_MAX];
    if (n != 16 + 1 + 2 * (size_t)HASH)
        return false;
    memcpy(end, value, 16);
    if (strspn(end, "0123456789abcdef") != 16)
        return false;
    uint64_t expires = strtoull(end, NULL, 16);
    if (expires <= now_s || expires > now_s + HTTP_LOGIN_SECONDS)
        return false;
    bool found = false;
    struct http_token t;
    for (const char *at = tokens; http_guard_next_token(&at, &t);) {
        http_login_value(key, t.line, t.line_n, expires, want);
        if (CRYPTO_memcmp(want, value, n) != 0 || found)
            continue;
        found = true;
        (void)snprintf(ret_user, HTTP_USER_MAX + 1, "%.*s", (int)t.name_n, t.name);
    }
    return found;
}

bool http_login_find(const uint8_t key[static HTTP_LOGIN_KEY], const char *cookies, const char *name,
                     const char *tokens, uint64_t now_s, char ret_user[static HTTP_USER_MAX + 1])
{
    size_t len = strlen(name);
    for (const char *at = cookies; at && *at;) {
        at += strspn(at, "; ");
        size_t n = strcspn(at, "; ");
        if (n > len && !strncmp(at, name, len) && at[len] == '=' &&
            is_good(key, at + len + 1, n - len - 1, tokens, now_s, ret_user))
            return true;
        at += n;
    }
    return false;
}

/*
 * What lies behind the # of an address never comes here. A form without an action goes to its page's address, with all
 * of it, and where an answer leads to a place without a #, browsers keep the one they had. So a link survives a login.
 */
struct MHD_Response *http_login_form(bool root, const char *reason)
{
    static const char policy[] = "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    const char *action = root ? "" : " action=\"/login\"";
    char *text KYMO_FREE =
        kymo_asprintf("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>kymo: log in</title>"
                      "<meta name=\"viewport\" content=\"width=device-width\"><h1>Log in</h1>%s%s%s"
                      "<form method=\"post\"%s><label>Token <input type=\"password\" name=\"token\" "
                      "required autofocus"
                      " autocomplete=\"current-password\"></label> <button>Log in</button></form>"
                      "<form method=\"post\"%s><p>Came by a link, and logged in already? <button>Go on</button>"
                      "</form></html>\n",
                      reason ? "<p role=\"alert\">" : "", reason ? reason : "", reason ? "</p>" : "", action, action);
    if (!text)
        return NULL;
    struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    http_request_headers(response, "text/html; charset=utf-8", policy);
    /* With no-referrer a browser says "null" for the page's origin, which is then a foreign one. */
    (void)MHD_del_response_header(response, "Referrer-Policy", "no-referrer");
    (void)MHD_add_response_header(response, "Referrer-Policy", "same-origin");
    return response;
}

static const char *cookie_name(const struct http *h)
{
    return h->config.tls ? HTTP_LOGIN_COOKIE_TLS : HTTP_LOGIN_COOKIE;
}

/* Leads to the page, with a cookie that ends so many seconds from now; value NULL: with that which it has. */
static void answer_cookie(struct http_request *q, const char *value, int seconds)
{
    char cookie[256];
    struct MHD_Response *response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (response && value) {
        (void)snprintf(cookie, sizeof cookie, "%s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s",
                       cookie_name(q->http), value, seconds, q->http->config.tls ? "; Secure" : "");
        (void)MHD_add_response_header(response, "Set-Cookie", cookie);
    }
    if (response) {
        (void)MHD_add_response_header(response, "Location", "/");
        http_request_headers(response, "text/plain", "default-src 'none'; frame-ancestors 'none'");
    }
    http_request_finish(q, 303, response);
}

static bool is_form(const struct http_request *q)
{
    const char *type = http_header(q, "Content-Type");
    size_t n = sizeof FORM_TYPE - 1;
    return type && !strncasecmp(type, FORM_TYPE, n) && strchr("; \t", type[n]);
}

/* The token in a form's body, as fresh memory. NULL: none. */
static char *read_token(const struct http_request *q)
{
    const void *data;
    size_t n;
    struct kymo_err err = {0};
    struct http_target form;
    http_body(q, &data, &n);
    if (n == 0 || memchr(data, '\0', n))
        return NULL;
    char *target KYMO_FREE = kymo_asprintf("/?%.*s", (int)n, (const char *)data);
    if (!target || http_target_parse(target, &form, &err) < 0)
        return NULL;
    const char *token = http_target_param(&form, "token");
    char *copy = token ? kymo_strdup(token) : NULL;
    http_target_done(&form);
    return copy;
}

static void refuse_login(struct http_request *q, const char *reason)
{
    http_refuse(q->http, HTTP_REFUSED_TOKEN);
    http_request_finish(q, 401, http_login_form(q->target.n_segments == 0, reason));
}

static void answer_wait(struct http_request *q, unsigned seconds)
{
    char number[16];
    struct MHD_Response *response =
        http_login_form(q->target.n_segments == 0, "Too many wrong tokens came from here. Try again later.");
    (void)snprintf(number, sizeof number, "%u", seconds);
    if (response)
        (void)MHD_add_response_header(response, "Retry-After", number);
    http_refuse(q->http, HTTP_REFUSED_ATTEMPTS);
    http_request_finish(q, 429, response);
}

void http_login_post(void *ctx, struct http_request *q)
{
    struct http *h = q->http;
    struct http_token found;
    char value[HTTP_LOGIN_VALUE_MAX];
    (void)ctx;
    if (!is_form(q)) {
        http_answer_error(q, 415, "media_type", "the body's type must be " FORM_TYPE);
        return;
    }
    char *token KYMO_FREE = read_token(q);
    if (!token) {
        if (q->login)
            answer_cookie(q, NULL, 0);
        else
            refuse_login(q, "This browser is not logged in.");
        return;
    }
    /* Who is logged in may not try others' tokens either; and tokens may have gone since the request began. */
    unsigned wait = http_request_wait(q);
    if (wait > 0) {
        answer_wait(q, wait);
        return;
    }
    if (!h->config.token || !http_guard_find_token(h->config.token, token, &found)) {
        http_request_wrong(q);
        refuse_login(q, "This token is not known here.");
        return;
    }
    uint64_t expires = kymo_clock_real_ns() / 1000000000 + HTTP_LOGIN_SECONDS;
    http_login_value(h->login_key, found.line, found.line_n, expires, value);
    answer_cookie(q, value, HTTP_LOGIN_SECONDS);
}

void http_logout_post(void *ctx, struct http_request *q)
{
    (void)ctx;
    answer_cookie(q, "", 0);
}
