/* Uploads with a disk that is watched, and fails: what takes long is never done on the loop nor on the store's thread,
 * and no byte is read again; what fails can be gone on with. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/api_query.h"
#include "collector/api_upload.h"
#include "collector/upload.h"

#define ROUNDS 30000 /* of the loop, a millisecond each, until something is missing */

struct world {
    uv_loop_t loop;
    struct net *net;
    struct http *http;
    struct store_thread *store;
    struct api_query api;
    bool ended;
    char root[40], id[2 * UPLOAD_ID_BYTES + 1], answer[4096];
};

static const struct http_route routes[] = {API_UPLOAD_ROUTES};
static const struct http_route body_routes[] = {API_UPLOAD_BODY_ROUTE};

/* What is watched: files of uploads, by their descriptors' names. */
static struct {
    pthread_t loop, store;
    atomic_uint on_loop, on_store, read_again, synced;
    atomic_int fail_sync, fail_link, fail_open;
} disk;

static bool is_part(int fd)
{
    char link[64], path[512] = "";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    return n > 0 && strstr(path, "/part-");
}

static void note_place(void)
{
    disk.on_loop += pthread_equal(pthread_self(), disk.loop) != 0;
    disk.on_store += pthread_equal(pthread_self(), disk.store) != 0;
}

static bool fails(atomic_int *cause)
{
    int code = atomic_exchange(cause, 0);
    if (code)
        errno = code;
    return code != 0;
}

static int watched_open(const char *path, int flags, mode_t mode)
{
    if (strstr(path, "/part-") && (flags & (O_CREAT | O_TRUNC))) {
        note_place();
        if (fails(&disk.fail_open))
            return -1;
    }
    return kymo_file_ops_system.open(path, flags, mode);
}

static ssize_t watched_pread(int fd, void *buf, size_t n, off_t off)
{
    disk.read_again += is_part(fd);
    return kymo_file_ops_system.pread(fd, buf, n, off);
}

static ssize_t watched_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    if (is_part(fd))
        note_place();
    return kymo_file_ops_system.pwrite(fd, buf, n, off);
}

static int watched_fsync(int fd)
{
    if (!is_part(fd))
        return 0;
    note_place();
    disk.synced++;
    return fails(&disk.fail_sync) ? -1 : 0;
}

static int watched_unlink(const char *path)
{
    if (strstr(path, "/uploads/") && strstr(path, "/part-"))
        note_place();
    return kymo_file_ops_system.unlink(path);
}

static int watched_link(const char *from, const char *to)
{
    return fails(&disk.fail_link) ? -1 : kymo_file_ops_system.link(from, to);
}

static void watch_disk(void)
{
    static struct kymo_file_ops ops;
    ops = kymo_file_ops_system;
    ops.open = watched_open;
    ops.pread = watched_pread;
    ops.pwrite = watched_pwrite;
    ops.fsync = watched_fsync;
    ops.unlink = watched_unlink;
    ops.link = watched_link;
    kymo_file_set_ops(&ops);
    memset(&disk, 0, sizeof disk);
    disk.loop = pthread_self();
}

struct lesson {
    struct store_job job; /* first */
    bool over;
};

static bool learn_store(struct store_job *job, struct store_thread *t)
{
    (void)job;
    (void)t;
    disk.store = pthread_self();
    return true;
}

static void learned(struct store_job *job)
{
    ((struct lesson *)job)->over = true;
}

static void on_ended(void *ctx)
{
    struct world *w = ctx;
    w->ended = true;
}

static void turn(struct world *w)
{
    (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    (void)usleep(1000);
}

static void open_world(struct world *w)
{
    struct kymo_err err = {0};
    struct lesson lesson = {.job = {.run = learn_store, .done = learned}};
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(net_new(&w->loop, &w->net, &err), 0);
    w->ended = false;
    const struct store_thread_config store = {
        .loop = &w->loop, .data_path = w->root, .no_work = true, .ended = on_ended, .ctx = w};
    if (store_thread_new(&store, &w->store, &err) < 0)
        fail_msg("%s", err.text);
    store_thread_post(w->store, &lesson.job);
    for (int i = 0; i < ROUNDS && !lesson.over; i++)
        turn(w);
    assert_true(lesson.over);
    const struct upload_config uploads = {
        .loop = &w->loop, .store = w->store, .data_path = w->root, .max_bytes = 1u << 30, .idle_ms = 60000};
    assert_int_equal(uploads_new(&uploads, &w->api.uploads, &err), 0);
    const struct http_config http = {.address = "127.0.0.1:0",
                                     .routes = routes,
                                     .n_routes = sizeof routes / sizeof *routes,
                                     .body_routes = body_routes,
                                     .n_body_routes = 1,
                                     .ctx = &w->api};
    assert_int_equal(http_new(&w->loop, w->net, &http, &w->http, &err), 0);
}

/* In the order in which the collector ends. */
static void close_world(struct world *w)
{
    w->http = http_close(w->http);
    uploads_close(w->api.uploads);
    store_thread_stop(w->store);
    for (int i = 0; i < ROUNDS && !w->ended; i++)
        turn(w);
    assert_true(w->ended);
    w->store = store_thread_free(w->store);
    w->api.uploads = uploads_free(w->api.uploads);
    net_free(w->net);
    while (uv_run(&w->loop, UV_RUN_DEFAULT))
        continue;
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

static int set_up(void **state)
{
    static struct world w;
    watch_disk();
    w = (struct world){.root = "/tmp/kymo-upload.XXXXXX"};
    if (!mkdtemp(w.root))
        return -1;
    open_world(&w);
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    if (w->http)
        close_world(w);
    kymo_file_set_ops(NULL);
    return kymo_file_remove_tree(w->root, NULL);
}

static int ask_socket(struct world *w, const char *method, const char *path, const char *body, size_t n)
{
    char head[512];
    const struct sockaddr_in in = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)http_port(w->http)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&in, sizeof in), 0);
    int k = snprintf(head, sizeof head,
                     "%s /api/v1/uploads%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                     method, path, n);
    assert_int_equal(send(fd, head, (size_t)k, MSG_NOSIGNAL), k);
    for (size_t sent = 0; sent < n;) {
        ssize_t m = send(fd, body + sent, n - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += m > 0 ? (size_t)m : 0;
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    return fd;
}

/* The status; the body is in w->answer. */
static int ask(struct world *w, const char *method, const char *path, const char *body, size_t n)
{
    static char text[8192];
    size_t have = 0;
    int fd = ask_socket(w, method, path, body, n);
    ssize_t m = -1;
    for (int i = 0; i < ROUNDS && m != 0; i++) {
        turn(w);
        m = recv(fd, text + have, sizeof text - 1 - have, MSG_DONTWAIT);
        have += m > 0 ? (size_t)m : 0;
    }
    text[have] = '\0';
    (void)close(fd);
    const char *end = strstr(text, "\r\n\r\n");
    assert_non_null(end);
    (void)snprintf(w->answer, sizeof w->answer, "%s", end + 4);
    return (int)strtol(text + sizeof "HTTP/1.1", NULL, 10);
}

static void begin(struct world *w)
{
    static const char body[] = "{\"name\":\"run\",\"bytes\":10000000}";
    assert_int_equal(ask(w, "POST", "", body, sizeof body - 1), 201);
    const char *id = strstr(w->answer, "\"id\":\"");
    assert_non_null(id);
    (void)snprintf(w->id, sizeof w->id, "%.*s", 2 * UPLOAD_ID_BYTES, id + 6);
}

static int put(struct world *w, const char *name, size_t size, size_t offset, size_t n)
{
    char path[256];
    char *data KYMO_FREE = kymo_malloc(n + 1);
    memset(data, 'a', n + 1);
    (void)snprintf(path, sizeof path, "/%s/files?path=%s&size=%zu&offset=%zu", w->id, name, size, offset);
    return ask(w, "PUT", path, data, n);
}

static int on_upload(struct world *w, const char *method, const char *what)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/%s%s", w->id, what);
    return ask(w, method, path, "", 0);
}

/* The answer of the upload when it is over. */
static void finish(struct world *w)
{
    assert_int_equal(on_upload(w, "POST", "/finish"), 202);
    assert_non_null(strstr(w->answer, "\"state\":\"finishing\""));
    for (int i = 0; i < 1000 && strstr(w->answer, "finishing"); i++)
        assert_int_equal(on_upload(w, "GET", ""), 200);
}

static bool is_there(const struct world *w, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", w->root, name);
    return access(path, F_OK) == 0;
}

static void keeps_nobody_waiting(void **state)
{
    struct world *w = *state;
    char place[64];
    begin(w);
    assert_int_equal(put(w, "p.ntff", 3000000, 0, 2000000), 200);
    /* It begins anew, and comes in two pieces. */
    assert_int_equal(put(w, "p.ntff", 3000000, 0, 1000000), 200);
    assert_int_equal(put(w, "p.ntff", 3000000, 1000000, 2000000), 200);
    assert_int_equal(put(w, "m.neff", 0, 0, 0), 200);
    assert_int_equal(disk.synced, 2);
    finish(w);
    assert_non_null(strstr(w->answer, "\"state\":\"done\""));
    assert_non_null(strstr(w->answer, "\"profiles\":[\"run-upload-r0-"));
    (void)snprintf(place, sizeof place, "uploads/%s", w->id);
    for (int i = 0; i < ROUNDS && is_there(w, place); i++)
        turn(w);
    assert_false(is_there(w, place));
    begin(w);
    assert_int_equal(put(w, "p.ntff", 3000000, 0, 2000000), 200);
    assert_int_equal(on_upload(w, "DELETE", ""), 200);
    (void)snprintf(place, sizeof place, "uploads/%s", w->id);
    assert_false(is_there(w, place));
    assert_int_equal(disk.on_loop, 0);
    assert_int_equal(disk.on_store, 0);
    assert_int_equal(disk.read_again, 0);
}

/* Nobody knows what the file holds after a sync that failed. */
static void begins_anew_what_is_not_durable(void **state)
{
    struct world *w = *state;
    begin(w);
    assert_int_equal(put(w, "p.ntff", 1000, 0, 600), 200);
    disk.fail_sync = EIO;
    assert_int_equal(put(w, "p.ntff", 1000, 600, 400), 500);
    assert_int_equal(on_upload(w, "GET", ""), 200);
    assert_non_null(strstr(w->answer, "\"received\":0,"));
    assert_int_equal(on_upload(w, "POST", "/finish"), 409);
    assert_int_equal(put(w, "p.ntff", 1000, 600, 400), 409);
    assert_non_null(strstr(w->answer, "\"offset\""));
    disk.fail_open = ENOSPC;
    assert_int_equal(put(w, "p.ntff", 1000, 0, 1000), 507);
    assert_int_equal(put(w, "p.ntff", 1000, 0, 1000), 200);
    finish(w);
    assert_non_null(strstr(w->answer, "\"state\":\"done\""));
}

static void can_be_finished_again(void **state)
{
    struct world *w = *state;
    begin(w);
    assert_int_equal(put(w, "p.ntff", 10, 0, 10), 200);
    disk.fail_link = ENOSPC;
    finish(w);
    assert_non_null(strstr(w->answer, "\"state\":\"failed\""));
    assert_non_null(strstr(w->answer, "No space left"));
    finish(w);
    assert_non_null(strstr(w->answer, "\"state\":\"done\""));
    assert_int_equal(on_upload(w, "POST", "/finish"), 200);
    assert_int_equal(on_upload(w, "DELETE", ""), 200);
    assert_int_equal(on_upload(w, "GET", ""), 404);
}

/* What was acknowledged, and is under way when the collector is stopped, is there when it starts. */
static void goes_on_after_a_stop(void **state)
{
    struct world *w = *state;
    struct store *s;
    char capture[64];
    begin(w);
    for (int i = 0; i < 20; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%d/p.ntff", i);
        assert_int_equal(put(w, name, 10, 0, 10), 200);
    }
    assert_int_equal(on_upload(w, "POST", "/finish"), 202);
    (void)snprintf(capture, sizeof capture, "%s", w->id);
    /* Another one has a piece on its way. */
    begin(w);
    char path[64];
    (void)snprintf(path, sizeof path, "/%s/files?path=p.ntff&size=1000", w->id);
    int fd = ask_socket(w, "PUT", path, "", 0);
    close_world(w);
    (void)close(fd);
    assert_int_equal(store_open(w->root, 0, &s, NULL), 0);
    assert_int_equal(catalog_has_capture(s->catalog, capture, NULL), 1);
    store_free(s);
    open_world(w);
    (void)snprintf(path, sizeof path, "%s/uploads", w->root);
    for (int i = 0; i < ROUNDS && rmdir(path) < 0; i++)
        turn(w);
    assert_false(is_there(w, "uploads"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_nobody_waiting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(begins_anew_what_is_not_durable, set_up, tear_down),
        cmocka_unit_test_setup_teardown(can_be_finished_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(goes_on_after_a_stop, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
