#include "collector/http_guard.h"

#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool is_port(const char *text)
{
    if (*text == '\0')
        return true;
    return *text == ':' && strspn(text + 1, DIGITS) == strlen(text + 1) && strlen(text) >= 2 && strlen(text) <= 6;
}

/* n bytes: four numbers up to 255, the first of them 127. */
static bool is_loopback4(const char *text, size_t n)
{
    unsigned parts = 0, value = 0, digits = 0, first = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i < n && text[i] >= '0' && text[i] <= '9') {
            value = value * 10 + (unsigned)(text[i] - '0');
            if (++digits > 3 || value > 255)
                return false;
        } else if ((i == n || text[i] == '.') && digits > 0) {
            first = parts == 0 ? value : first;
            parts++;
            value = digits = 0;
        } else {
            return false;
        }
    }
    return parts == 4 && first == 127;
}

static bool is_name(const char *host, size_t n, const char *name)
{
    return strlen(name) == n && !strncasecmp(host, name, n);
}

bool http_guard_host(const char *host, const char *const *names, size_t n)
{
    size_t len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (len > strlen(host) || !is_port(host + len))
        return false;
    if (is_name(host, len, "localhost") || is_name(host, len, "[::1]") || is_loopback4(host, len))
        return true;
    for (size_t i = 0; i < n; i++)
        if (is_name(host, len, names[i]))
            return true;
    return false;
}

bool http_guard_origin(const char *origin, const char *host)
{
    if (!strncmp(origin, "http://", 7))
        origin += 7;
    else if (!strncmp(origin, "https://", 8))
        origin += 8;
    else
        return false;
    return *origin && !strcasecmp(origin, host);
}

static bool is_token(const char *token, size_t len)
{
    static const char characters[] = LETTERS DIGITS "-._~+/=";
    return len >= HTTP_TOKEN_MIN && len <= HTTP_TOKEN_MAX && strspn(token, characters) >= len;
}

bool http_guard_next_token(const char **at, struct http_token *ret)
{
    static const char blank[] = " \t\r";
    static const char nobody[] = "token";
    const char *line = *at + strspn(*at, " \t\r\n");
    size_t n = strcspn(line, "\r\n");
    *at = line + n;
    while (n > 0 && strchr(blank, line[n - 1]))
        n--;
    size_t first = strcspn(line, " \t\r\n");
    *ret = (struct http_token){line, nobody, line, n, sizeof nobody - 1, n};
    if (first < n) {
        size_t skip = first + strspn(line + first, blank);
        *ret = (struct http_token){line, line, line + skip, n, first, n - skip};
    }
    return n > 0;
}

static bool is_sound(const struct http_token *t)
{
    size_t n = sizeof HTTP_USER_LOCAL - 1;
    bool local = t->name_n == n && !memcmp(t->name, HTTP_USER_LOCAL, n);
    return !local && t->name_n <= HTTP_USER_MAX && strspn(t->name, LETTERS DIGITS "._-") >= t->name_n &&
           t->line_n <= HTTP_TOKEN_LINE_MAX && is_token(t->token, t->token_n);
}

bool http_guard_are_tokens(const char *tokens)
{
    struct http_token t;
    size_t n = 0;
    for (const char *at = tokens; http_guard_next_token(&at, &t); n++)
        if (n == HTTP_TOKENS_MAX || !is_sound(&t))
            return false;
    return n > 0;
}

bool http_guard_find_token(const char *tokens, const char *token, struct http_token *ret)
{
    size_t n = strlen(token);
    bool found = false;
    struct http_token t;
    for (const char *at = tokens; http_guard_next_token(&at, &t);)
        if (t.token_n == n && CRYPTO_memcmp(t.token, token, n) == 0 && !found) {
            *ret = t;
            found = true;
        }
    return found;
}

bool http_guard_has_bearer(const char *authorization)
{
    return authorization && !strncasecmp(authorization, "Bearer ", 7);
}

bool http_guard_authorized(const char *authorization, const char *tokens, struct http_token *ret)
{
    if (!http_guard_has_bearer(authorization))
        return false;
    authorization += 7;
    authorization += strspn(authorization, " ");
    return http_guard_find_token(tokens, authorization, ret);
}
