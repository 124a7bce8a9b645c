/* Hosts, origins and tokens that are let in, and those that are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>

#include "collector/http_guard.h"
#include "collector/http_login.h"
#include "collector/http_wrong.h"

static void test_host(void **state)
{
    static const char *const names[] = {"collector.example"};
    static const char *const good[] = {"localhost", "LocalHost:3001", "127.0.0.1",         "127.255.0.9:1",
                                       "[::1]",     "[::1]:65535",    "Collector.Example", "collector.example:80"};
    static const char *const bad[] = {
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0",
        "127.0.0.256",
        "127.0.0.1.1",
        "128.0.0.1",
        "127..0.1",
        "127.0.0.1:123456",
        "0127.0.0.1",
        "[::2]",
        "[::1",
        "::1",
        "[::1]evil",
        "localhost@evil",
        "0.0.0.0",
        "[::]",
        "localhost ",
        "127.1",
        "2130706433",
        "xlocalhost",
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(http_guard_host(good[i], names, 1));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(http_guard_host(bad[i], names, 1));
    assert_false(http_guard_host("collector.example", NULL, 0));
}

static void test_origin(void **state)
{
    (void)state;
    assert_true(http_guard_origin("http://localhost:3001", "localhost:3001"));
    assert_true(http_guard_origin("https://Collector.example", "collector.example"));
    assert_false(http_guard_origin("http://localhost:3002", "localhost:3001"));
    assert_false(http_guard_origin("http://evil.example", "localhost:3001"));
    assert_false(http_guard_origin("null", "localhost:3001"));
    assert_false(http_guard_origin("", ""));
    assert_false(http_guard_origin("http://", ""));
    assert_false(http_guard_origin("file://localhost:3001", "localhost:3001"));
}

static void test_token(void **state)
{
    static const char token[] = "0123456789abcdef";
    char longest[HTTP_TOKEN_MAX + 2];
    struct http_token found;
    (void)state;
    assert_true(http_guard_are_tokens(token));
    assert_false(http_guard_are_tokens("0123456789abcde"));
    assert_false(http_guard_are_tokens(""));
    memset(longest, 'a', sizeof longest);
    longest[HTTP_TOKEN_MAX + 1] = '\0';
    assert_false(http_guard_are_tokens(longest));
    longest[HTTP_TOKEN_MAX] = '\0';
    assert_true(http_guard_are_tokens(longest));
    assert_true(http_guard_authorized("Bearer 0123456789abcdef", token, &found));
    assert_true(http_guard_authorized("bearer   0123456789abcdef", token, &found));
    assert_false(http_guard_authorized(NULL, token, &found));
    assert_false(http_guard_authorized("", token, &found));
    assert_false(http_guard_authorized("Bearer", token, &found));
    assert_false(http_guard_authorized("Bearer ", token, &found));
    assert_false(http_guard_authorized("Basic 0123456789abcdef", token, &found));
    assert_false(http_guard_authorized("Bearer 0123456789abcdeF", token, &found));
    assert_false(http_guard_authorized("Bearer 0123456789abcdef0", token, &found));
    assert_false(http_guard_authorized("Bearer 0123456789abcde", token, &found));
}

static void test_tokens(void **state)
{
    static const char tokens[] =
        "\r\n0123456789abcdef\n\n  ann  ann-has-a-token-1 \r\nann ann-has-a-token-2\nbob.b bob-has-a-token--";
    static const char *const bad[] = {"",
                                      " \n\t",
                                      "ann short",
                                      "an!n 0123456789abcdef",
                                      "ann 0123456789abcdef more",
                                      "spaces in this token",
                                      "0123456789abcdef\nshort",
                                      "local 0123456789abcdef",
                                      "0123456789abc\001def",
                                      "0123456789abcdef\xc3\xa9"};
    static const char *const known[][2] = {{"0123456789abcdef", "token"},
                                           {"ann-has-a-token-1", "ann"},
                                           {"ann-has-a-token-2", "ann"},
                                           {"bob-has-a-token--", "bob.b"}};
    struct http_token t;
    (void)state;
    assert_true(http_guard_are_tokens(tokens));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(http_guard_are_tokens(bad[i]));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(http_guard_find_token(tokens, known[i][0], &t));
        assert_int_equal(t.name_n, strlen(known[i][1]));
        assert_memory_equal(t.name, known[i][1], t.name_n);
    }
    assert_false(http_guard_find_token(tokens, "", &t));
    assert_false(http_guard_find_token(tokens, "ann", &t));
    assert_false(http_guard_find_token(tokens, "ann  ann-has-a-token-1", &t));
    assert_false(http_guard_find_token(tokens, "ann-has-a-token-3", &t));
}

static void test_login(void **state)
{
    static const char tokens[] = "ann ann-has-a-token-1\nbob bob-has-a-token-1", fewer[] = "ann ann-has-a-token-1";
    static const uint8_t key[HTTP_LOGIN_KEY] = {1}, other[HTTP_LOGIN_KEY] = {2};
    const uint64_t now = 1000000;
    char value[HTTP_LOGIN_VALUE_MAX], cookies[2 * HTTP_LOGIN_VALUE_MAX], user[HTTP_USER_MAX + 1] = "";
    (void)state;
    http_login_value(key, tokens + strlen(fewer) + 1, strlen("bob bob-has-a-token-1"), now + 10, value);
    (void)snprintf(cookies, sizeof cookies, "a=b; kymo=wrong; kymo=%s; c=d", value);
    assert_true(http_login_find(key, cookies, "kymo", tokens, now, user));
    assert_string_equal(user, "bob");
    assert_false(http_login_find(key, cookies, "kym", tokens, now, user));
    assert_false(http_login_find(key, cookies, "__Host-kymo", tokens, now, user));
    assert_false(http_login_find(key, NULL, "kymo", tokens, now, user));
    /* Over; a key of another process; a token that was taken away; a time that no login of ours has. */
    assert_false(http_login_find(key, cookies, "kymo", tokens, now + 10, user));
    assert_false(http_login_find(other, cookies, "kymo", tokens, now, user));
    assert_false(http_login_find(key, cookies, "kymo", fewer, now, user));
    assert_false(http_login_find(key, cookies, "kymo", tokens, now - HTTP_LOGIN_SECONDS, user));
    /* Each character counts. */
    for (size_t i = 0; i < strlen(value); i++) {
        (void)snprintf(cookies, sizeof cookies, "kymo=%s", value);
        cookies[5 + i] = cookies[5 + i] == '0' ? '1' : '0';
        assert_false(http_login_find(key, cookies, "kymo", tokens, now, user));
        cookies[5 + i] = '\0';
        assert_false(http_login_find(key, cookies, "kymo", tokens, now, user));
    }
}

static struct http_peer peer4(uint32_t address)
{
    const struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    struct sockaddr_storage addr = {0};
    memcpy(&addr, &in, sizeof in);
    return http_wrong_peer((const struct sockaddr *)&addr);
}

static struct http_peer peer6(const char *text)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    struct sockaddr_storage addr = {0};
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    memcpy(&addr, &in6, sizeof in6);
    return http_wrong_peer((const struct sockaddr *)&addr);
}

static bool same_peer(struct http_peer a, struct http_peer b)
{
    return !memcmp(&a, &b, sizeof a);
}

static void test_peers(void **state)
{
    (void)state;
    assert_true(same_peer(peer4(0x0a000001), peer4(0x0a000001)));
    assert_false(same_peer(peer4(0x0a000001), peer4(0x0a000002)));
    assert_true(same_peer(peer4(0x7f000001), peer4(0x7f010203)));
    assert_true(same_peer(peer6("2001:db8:1:2::1"), peer6("2001:db8:1:2:3:4:5:6")));
    assert_false(same_peer(peer6("2001:db8:1:2::1"), peer6("2001:db8:1:3::1")));
    assert_false(same_peer(peer6("::ffff:10.0.0.1"), peer6("::ffff:10.0.0.2")));
    assert_false(same_peer(peer4(0x0a000001), http_wrong_peer(NULL)));
}

static void test_wrong(void **state)
{
    static struct http_wrong w;
    const struct http_peer ann = peer4(0x0a000001), bob = peer4(0x0a000002);
    uint64_t now = 5000000;
    (void)state;
    for (int i = 0; i < HTTP_WRONG_BURST; i++) {
        assert_int_equal(http_wrong_wait(&w, &ann, now), 0);
        http_wrong_note(&w, &ann, now);
    }
    assert_int_equal(http_wrong_wait(&w, &ann, now), HTTP_WRONG_EVERY_MS / 1000);
    assert_int_equal(http_wrong_wait(&w, &bob, now), 0);
    assert_int_equal(http_wrong_wait(&w, &ann, now + HTTP_WRONG_EVERY_MS - 1), 1);
    now += HTTP_WRONG_EVERY_MS;
    assert_int_equal(http_wrong_wait(&w, &ann, now), 0);
    http_wrong_note(&w, &ann, now);
    assert_true(http_wrong_wait(&w, &ann, now) > 0);
    /* All attempts are there again after a while, not more. */
    now += 1000ull * HTTP_WRONG_EVERY_MS;
    for (int i = 0; i < HTTP_WRONG_BURST; i++) {
        assert_int_equal(http_wrong_wait(&w, &ann, now), 0);
        http_wrong_note(&w, &ann, now);
    }
    assert_true(http_wrong_wait(&w, &ann, now) > 0);
    /* Many others do not push out who has tried most. */
    for (uint32_t i = 0; i < 4 * HTTP_WRONG_PEERS; i++) {
        const struct http_peer other = peer4(0x0b000000 + i);
        http_wrong_note(&w, &other, now);
    }
    assert_int_equal(w.n, HTTP_WRONG_PEERS);
    assert_true(http_wrong_wait(&w, &ann, now) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),   cmocka_unit_test(test_origin), cmocka_unit_test(test_token),
        cmocka_unit_test(test_tokens), cmocka_unit_test(test_login),  cmocka_unit_test(test_peers),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
