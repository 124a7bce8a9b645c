#include "collector/http_guard.h"

#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>

#define DIGITS "0123456789"

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

bool http_guard_is_token(const char *token)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "-._~+/=";
    size_t n = strspn(token, characters);
    return n >= HTTP_TOKEN_MIN && n <= HTTP_TOKEN_MAX && token[n] == '\0';
}

bool http_guard_authorized(const char *authorization, const char *token)
{
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return false;
    authorization += 7;
    authorization += strspn(authorization, " ");
    size_t n = strlen(token);
    return strlen(authorization) == n && CRYPTO_memcmp(authorization, token, n) == 0;
}
