#include "base/net.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/net_internal.h"

int net_fail(struct kymo_err *err, int code, const char *what, const char *name)
{
    return kymo_err_set(err, code, "%s: %s: %s", name, what, uv_strerror(code));
}

static void on_kick(uv_idle_t *handle)
{
    struct net *n = handle->data;
    struct net_conn *list = n->kicked;
    n->kicked = NULL;
    (void)uv_idle_stop(handle);
    while (list) {
        struct net_conn *c = list;
        list = *net_conn_next(c);
        *net_conn_next(c) = NULL;
        net_conn_turn(c);
    }
}

void net_kick(struct net *n, struct net_conn *c)
{
    for (struct net_conn *k = n->kicked; k; k = *net_conn_next(k))
        if (k == c)
            return;
    *net_conn_next(c) = n->kicked;
    n->kicked = c;
    (void)uv_idle_start(&n->kick, on_kick);
}

void net_unkick(struct net *n, struct net_conn *c)
{
    for (struct net_conn **link = &n->kicked; *link; link = net_conn_next(*link))
        if (*link == c) {
            *link = *net_conn_next(c);
            *net_conn_next(c) = NULL;
            return;
        }
}

int net_new(uv_loop_t *loop, struct net **ret, struct kymo_err *err)
{
    struct net *n = KYMO_NEW(struct net);
    if (!n)
        return kymo_err_set(err, -ENOMEM, "net: out of memory");
    n->loop = loop;
    (void)uv_idle_init(loop, &n->kick);
    n->kick.data = n;
    *ret = n;
    return 0;
}

static void on_net_closed(uv_handle_t *handle)
{
    kymo_free(handle->data);
}

struct net *net_free(struct net *n)
{
    if (n)
        uv_close((uv_handle_t *)&n->kick, on_net_closed);
    return NULL;
}

static bool is_port(const char *s)
{
    size_t n = strlen(s);
    return n >= 1 && n <= 5 && strspn(s, "0123456789") == n && strtoul(s, NULL, 10) <= 65535;
}

int net_address_parse(const char *text, struct net_address *ret, struct kymo_err *err)
{
    bool bracket = text[0] == '[';
    const char *host = bracket ? text + 1 : text;
    const char *end = bracket ? strchr(host, ']') : strrchr(host, ':');
    const char *colon = end && bracket ? end + 1 : end;
    if (!colon || *colon != ':' || !is_port(colon + 1) || end == host || end - host > NET_HOST_MAX)
        return kymo_err_set(err, -EINVAL, "%.80s: not an address: host:port or [v6]:port", text);
    if (!bracket && memchr(host, ':', (size_t)(end - host)))
        return kymo_err_set(err, -EINVAL, "%.80s: IPv6 addresses stand in brackets: [v6]:port", text);
    memset(ret, 0, sizeof *ret);
    memcpy(ret->host, host, (size_t)(end - host));
    memcpy(ret->port, colon + 1, strlen(colon + 1));
    return 0;
}

int net_numeric(const char *text, struct sockaddr_storage *ret, struct kymo_err *err)
{
    struct net_address address;
    int r = net_address_parse(text, &address, err);
    if (r < 0)
        return r;
    int port = (int)strtoul(address.port, NULL, 10);
    memset(ret, 0, sizeof *ret);
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    if (uv_ip4_addr(address.host, port, &in) == 0)
        memcpy(ret, &in, sizeof in);
    else if (uv_ip6_addr(address.host, port, &in6) == 0)
        memcpy(ret, &in6, sizeof in6);
    else
        return kymo_err_set(err, -EINVAL, "%s: a numeric address is needed to listen on", text);
    return 0;
}

int net_listening(int fd, const char *name, struct sockaddr_storage *ret, struct kymo_err *err)
{
    int listens = 0;
    socklen_t size = sizeof listens, len = sizeof *ret;
    memset(ret, 0, sizeof *ret);
    if (getsockname(fd, (struct sockaddr *)ret, &len) < 0 ||
        (ret->ss_family != AF_INET && ret->ss_family != AF_INET6) ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens)
        return kymo_err_set(err, -EINVAL, "%s: descriptor %d is no listening TCP socket", name, fd);
    return 0;
}

bool net_is_loopback(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, addr, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    if (addr->sa_family != AF_INET6)
        return false;
    struct sockaddr_in6 in6;
    memcpy(&in6, addr, sizeof in6);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) && in6.sin6_addr.s6_addr[12] == 127);
}

void net_format(const struct sockaddr *addr, char ret[static NET_PEER_MAX])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (addr->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, addr, sizeof in);
        (void)inet_ntop(AF_INET, &in.sin_addr, host, sizeof host);
        (void)snprintf(ret, NET_PEER_MAX, "%s:%u", host, ntohs(in.sin_port));
    } else if (addr->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, addr, sizeof in6);
        (void)inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof host);
        (void)snprintf(ret, NET_PEER_MAX, "[%s]:%u", host, ntohs(in6.sin6_port));
    } else {
        (void)snprintf(ret, NET_PEER_MAX, "?");
    }
}
