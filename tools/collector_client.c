#include "tools/collector_client.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"

#define ANSWER_MAX (64u << 20)
#define BODY_MAX (64u << 10)
#define TOKEN_MAX 4096
#define CONNECT_MS 10000L
#define REQUEST_MS 120000L
#define PAGES_MAX 100000
#define ASK "the API is at kymo-collector's --http (127.0.0.1:3001)"

struct collector_client {
    CURL *curl;
    struct curl_slist *headers;
    char *url; /* without a slash at the end */
    struct kymo_buf answer;
};

static size_t on_bytes(char *data, size_t size, size_t n, void *ctx)
{
    struct kymo_buf *answer = ctx;
    return kymo_buf_append(answer, data, size * n) == 0 ? size * n : 0;
}

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for a request");
}

static int add_header(struct collector_client *c, const char *text, struct kymo_err *err)
{
    struct curl_slist *longer = curl_slist_append(c->headers, text);
    if (!longer)
        return no_memory(err);
    c->headers = longer;
    return 0;
}

/* The line of a file, or the variable; NULL: there is neither. */
static int read_token(const struct collector_options *o, char **ret, struct kymo_err *err)
{
    const char *given = getenv(COLLECTOR_TOKEN_VARIABLE);
    uint8_t *data KYMO_FREE = NULL;
    size_t n = 0;
    *ret = NULL;
    if (o->token_file) {
        int r = kymo_file_read_all(o->token_file, TOKEN_MAX, &data, &n, err);
        if (r < 0)
            return r;
        given = (const char *)data;
    }
    if (!given || !*given)
        return 0;
    size_t len = strcspn(given, "\r\n");
    for (size_t i = 0; i < len; i++)
        if (!isgraph((unsigned char)given[i]))
            return kymo_err_set(err, -EINVAL, "%s holds no token",
                                o->token_file ? o->token_file : COLLECTOR_TOKEN_VARIABLE);
    *ret = kymo_asprintf("Authorization: Bearer %.*s", (int)len, given);
    return *ret ? 0 : no_memory(err);
}

static int set_headers(struct collector_client *c, const struct collector_options *o, struct kymo_err *err)
{
    char *token KYMO_FREE = NULL;
    int r = read_token(o, &token, err);
    if (r == 0)
        r = add_header(c, "Accept: application/json", err);
    if (r == 0)
        r = add_header(c, "Content-Type: application/json", err);
    /* What waits to be allowed to send its body is more to go wrong, for nothing. */
    if (r == 0)
        r = add_header(c, "Expect:", err);
    return r == 0 && token ? add_header(c, token, err) : r;
}

static int set_up(struct collector_client *c, const struct collector_options *o, struct kymo_err *err)
{
    CURL *h = c->curl;
    bool sound = curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
                 curl_easy_setopt(h, CURLOPT_PROXY, "") == CURLE_OK &&
                 curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
                 curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) == CURLE_OK &&
                 curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, REQUEST_MS) == CURLE_OK &&
                 curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK &&
                 curl_easy_setopt(h, CURLOPT_WRITEDATA, &c->answer) == CURLE_OK &&
                 curl_easy_setopt(h, CURLOPT_HTTPHEADER, c->headers) == CURLE_OK &&
                 (!o->ca || curl_easy_setopt(h, CURLOPT_CAINFO, o->ca) == CURLE_OK);
    return sound ? 0 : kymo_err_set(err, -EIO, "the HTTP client cannot be set up");
}

static void freep(struct collector_client **c)
{
    collector_client_free(*c);
}

int collector_client_new(const struct collector_options *o, struct collector_client **ret, struct kymo_err *err)
{
    if (strncmp(o->url, "http://", 7) != 0 && strncmp(o->url, "https://", 8) != 0)
        return kymo_err_set(err, -EINVAL, "%.200s: no address of a collector, such as http://127.0.0.1:3001", o->url);
    struct collector_client *c KYMO_CLEANUP(freep) = KYMO_NEW(struct collector_client);
    if (!c)
        return no_memory(err);
    kymo_buf_init(&c->answer, ANSWER_MAX);
    c->curl = curl_easy_init();
    c->url = kymo_strdup(o->url);
    if (!c->curl || !c->url)
        return no_memory(err);
    for (size_t n = strlen(c->url); n > 0 && c->url[n - 1] == '/'; n--)
        c->url[n - 1] = '\0';
    int r = set_headers(c, o, err);
    if (r == 0)
        r = set_up(c, o, err);
    if (r == 0)
        *ret = KYMO_TAKE(c);
    return r;
}

struct collector_client *collector_client_free(struct collector_client *c)
{
    if (!c)
        return NULL;
    curl_easy_cleanup(c->curl);
    curl_slist_free_all(c->headers);
    kymo_buf_done(&c->answer);
    kymo_free(c->url);
    kymo_free(c);
    return NULL;
}

static int code_of(long status)
{
    switch (status) {
    case 401:
    case 403:
        return -EACCES;
    case 404:
        return -ENOENT;
    case 409:
        return -EALREADY;
    case 503:
        return -EAGAIN;
    default:
        return status < 500 ? -EINVAL : -EIO;
    }
}

/* What came back, whatever its status. */
static int read_answer(struct collector_client *c, long status, json_t **ret, struct kymo_err *err)
{
    json_error_t why;
    json_t *root = json_loadb((const char *)c->answer.data, c->answer.len, 0, &why);
    if (status >= 400 && !json_is_object(root)) {
        json_decref(root);
        return kymo_err_set(err, -EBADMSG, "%s: the answer (%ld) is none of a collector; " ASK, c->url, status);
    }
    if (status >= 400) {
        const char *text = json_string_value(json_object_get(json_object_get(root, "error"), "message"));
        int r = kymo_err_set(err, code_of(status), "%s: %s (%ld)", c->url, text ? text : "an error without a reason",
                             status);
        json_decref(root);
        return r;
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return kymo_err_set(err, -EBADMSG, "%s: the answer is none of a collector; " ASK, c->url);
    }
    *ret = root;
    return 0;
}

static int perform(struct collector_client *c, const char *path, json_t **ret, struct kymo_err *err)
{
    long status = 0;
    char *url KYMO_FREE = kymo_asprintf("%s%s", c->url, path);
    if (!url || curl_easy_setopt(c->curl, CURLOPT_URL, url) != CURLE_OK)
        return no_memory(err);
    kymo_buf_reset(&c->answer);
    CURLcode code = curl_easy_perform(c->curl);
    if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY)
        return kymo_err_set(err, -EBADMSG,
                            "%s: who answers does not speak HTTP; this may be the port for daemons: " ASK, c->url);
    if (code != CURLE_OK)
        return kymo_err_set(err, code == CURLE_COULDNT_CONNECT ? -ECONNREFUSED : -EIO, "%s: %s", c->url,
                            curl_easy_strerror(code));
    (void)curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    return read_answer(c, status, ret, err);
}

int collector_client_get(struct collector_client *c, const char *path, json_t **ret, struct kymo_err *err)
{
    if (curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L) != CURLE_OK)
        return no_memory(err);
    return perform(c, path, ret, err);
}

static int append(const char *data, size_t n, void *ctx)
{
    return kymo_buf_append(ctx, data, n);
}

int collector_client_post(struct collector_client *c, const char *path, const json_t *body, json_t **ret,
                          struct kymo_err *err)
{
    struct kymo_buf text;
    kymo_buf_init(&text, BODY_MAX);
    bool sound = (!body || json_dump_callback(body, append, &text, JSON_COMPACT) == 0) &&
                 curl_easy_setopt(c->curl, CURLOPT_POST, 1L) == CURLE_OK &&
                 curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE, (long)text.len) == CURLE_OK &&
                 curl_easy_setopt(c->curl, CURLOPT_COPYPOSTFIELDS, text.len ? (const char *)text.data : "") == CURLE_OK;
    kymo_buf_done(&text);
    return sound ? perform(c, path, ret, err) : no_memory(err);
}

static int add_page(struct collector_client *c, const char *path, const char *key, json_t *all, char **cursor,
                    struct kymo_err *err)
{
    json_t *page = NULL;
    int r = collector_client_get(c, path, &page, err);
    if (r < 0)
        return r;
    const json_t *next = json_object_get(page, "next");
    json_t *rows = json_object_get(page, key);
    kymo_free(*cursor);
    *cursor = NULL;
    if (!json_is_array(rows))
        r = kymo_err_set(err, -EBADMSG, "%s: the answer has no %s", c->url, key);
    else if (json_array_extend(all, rows) < 0)
        r = no_memory(err);
    else if (json_is_string(next) && !(*cursor = kymo_strdup(json_string_value(next))))
        r = no_memory(err);
    json_decref(page);
    return r;
}

int collector_client_list(struct collector_client *c, const char *path, const char *key, const char *query,
                          json_t **ret, struct kymo_err *err)
{
    json_t *all = json_array();
    char *cursor KYMO_FREE = NULL;
    int r = all ? 0 : no_memory(err);
    for (int pages = 0; r == 0; pages++) {
        /* A cursor is of characters that a query takes as they are. */
        char *target KYMO_FREE =
            kymo_asprintf("%s?%s%s%s", path, query, cursor ? "&cursor=" : "", cursor ? cursor : "");
        if (!target)
            r = no_memory(err);
        else if (pages == PAGES_MAX)
            r = kymo_err_set(err, -EBADMSG, "%s: the list does not end", c->url);
        else
            r = add_page(c, target, key, all, &cursor, err);
        if (!cursor)
            break;
    }
    if (r == 0)
        *ret = all;
    else
        json_decref(all);
    return r;
}
