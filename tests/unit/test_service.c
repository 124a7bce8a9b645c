/* Readiness, watchdog and inherited sockets against a stand-in for the service manager: a datagram socket. */
#include "base/service.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

#define FIRST 3 /* SD_LISTEN_FDS_START */

struct manager {
    char dir[64], path[80];
    int fd;
    uv_loop_t loop;
    uv_timer_t end, heart;
    uint64_t beats;
};

static int bound(const char *path, int type)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    int fd = socket(AF_UNIX, type, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&addr, sizeof addr), 0);
    return fd;
}

static void clear_environment(void)
{
    static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                        "LISTEN_PID",    "LISTEN_FDS",    "LISTEN_FDNAMES"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(unsetenv(names[i]), 0);
}

static int setup(void **state)
{
    static struct manager m;
    memset(&m, 0, sizeof m);
    clear_environment();
    (void)snprintf(m.dir, sizeof m.dir, "/tmp/kymo-test-service-XXXXXX");
    if (!mkdtemp(m.dir))
        return 1;
    (void)snprintf(m.path, sizeof m.path, "%s/notify", m.dir);
    m.fd = bound(m.path, SOCK_DGRAM);
    assert_int_equal(uv_loop_init(&m.loop), 0);
    (void)uv_timer_init(&m.loop, &m.end);
    *state = &m;
    return 0;
}

static int teardown(void **state)
{
    struct manager *m = *state;
    uv_close((uv_handle_t *)&m->end, NULL);
    (void)uv_run(&m->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&m->loop), 0);
    (void)close(m->fd);
    clear_environment();
    return kymo_file_remove_tree(m->dir, NULL);
}

/* The next thing said, or "". */
static const char *heard(struct manager *m)
{
    static char text[1024];
    ssize_t n = recv(m->fd, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static unsigned pings(struct manager *m)
{
    unsigned n = 0;
    for (const char *text = heard(m); *text; text = heard(m))
        n += !strcmp(text, "WATCHDOG=1");
    return n;
}

static void stop(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Runs for a while and counts pings. The socket holds ten words: somebody has to listen meanwhile. */
static unsigned run(struct manager *m, uint64_t ms)
{
    unsigned n = 0;
    for (uint64_t end = uv_hrtime() + ms * 1000000; uv_hrtime() < end; n += pings(m)) {
        (void)uv_timer_start(&m->end, stop, 10, 0);
        (void)uv_run(&m->loop, UV_RUN_DEFAULT);
    }
    return n;
}

static struct service *make(struct manager *m)
{
    struct service *s = NULL;
    struct kymo_err err = {0};
    if (service_new(&m->loop, &s, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

static void test_words(void **state)
{
    struct manager *m = *state;
    assert_int_equal(setenv("NOTIFY_SOCKET", m->path, 1), 0);
    struct service *s = make(m);
    service_ready(s, "serving\nMAINPID=1");
    assert_string_equal(heard(m), "READY=1");
    assert_string_equal(heard(m), "STATUS=serving");
    service_ready(s, NULL);
    assert_string_equal(heard(m), "READY=1");
    service_reloading(s);
    const char *text = heard(m);
    assert_int_equal(strncmp(text, "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
    assert_true(strtoull(text + 27, NULL, 10) > 0);
    service_status(s, "%d captures\nREADY=1", 3);
    assert_string_equal(heard(m), "STATUS=3 captures");
    service_stopping(s);
    assert_string_equal(heard(m), "STOPPING=1");
    assert_false(service_has_watchdog(s));
    assert_int_equal(run(m, 30), 0);
    service_free(s);
}

static void test_without_manager(void **state)
{
    struct manager *m = *state;
    struct service *s = make(m);
    service_ready(s, "serving");
    service_reloading(s);
    service_stopping(s);
    int fd = -7;
    struct kymo_err err = {0};
    assert_int_equal(service_take_socket(s, "hook", AF_UNIX, SOCK_SEQPACKET, &fd, &err), -ENOENT);
    assert_int_equal(fd, -7);
    assert_null(service_untaken(s));
    assert_null(service_hung(s));
    /* Its timer keeps no loop alive. */
    assert_int_equal(uv_run(&m->loop, UV_RUN_DEFAULT), 0);
    service_free(s);
    assert_null(service_free(NULL));
    assert_string_equal(heard(m), "");
}

static uint64_t count_beats(void *ctx)
{
    return ((struct manager *)ctx)->beats;
}

static void beat(uv_timer_t *timer)
{
    ((struct manager *)timer->data)->beats++;
}

static void test_watchdog(void **state)
{
    struct manager *m = *state;
    assert_int_equal(setenv("NOTIFY_SOCKET", m->path, 1), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", "20000", 1), 0);
    struct service *s = make(m);
    assert_true(service_has_watchdog(s));
    assert_null(getenv("WATCHDOG_USEC"));
    assert_int_equal(uv_run(&m->loop, UV_RUN_DEFAULT), 0);
    assert_in_range(run(m, 120), 4, 13);
    /* A loop that is held up is silent. */
    (void)usleep(60000);
    assert_int_equal(pings(m), 0);
    service_free(s);
}

static void test_hung_thread(void **state)
{
    struct manager *m = *state;
    assert_int_equal(setenv("NOTIFY_SOCKET", m->path, 1), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", "10000", 1), 0);
    struct service *s = make(m);
    uv_timer_t *heart = &m->heart;
    (void)uv_timer_init(&m->loop, heart);
    heart->data = m;
    assert_int_equal(service_watch(s, "outbox", 50, count_beats, m, NULL), 0);
    (void)uv_timer_start(heart, beat, 5, 5);
    assert_in_range(run(m, 150), 8, 31);
    assert_null(service_hung(s));
    (void)uv_timer_stop(heart);
    (void)run(m, 100);
    assert_int_equal(run(m, 60), 0);
    assert_string_equal(service_hung(s), "outbox");
    (void)uv_timer_start(heart, beat, 1, 5);
    assert_true(run(m, 60) > 0);
    assert_null(service_hung(s));
    (void)uv_timer_stop(heart);
    service_unwatch(s, m);
    assert_true(run(m, 100) > 0);
    for (size_t i = 0; i < SERVICE_WATCHES_MAX; i++)
        assert_int_equal(service_watch(s, "x", 50, count_beats, m, NULL), 0);
    assert_int_equal(service_watch(s, "x", 50, count_beats, m, NULL), -ENOBUFS);
    uv_close((uv_handle_t *)heart, NULL);
    service_free(s);
}

/* In a process of its own, since the descriptors have fixed numbers. */
static int inherit_and_take(struct manager *m)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/hook.sock", m->dir);
    int hook = bound(path, SOCK_SEQPACKET);
    (void)snprintf(path, sizeof path, "%s/other.sock", m->dir);
    int other = bound(path, SOCK_STREAM);
    if (listen(hook, 5) < 0 || listen(other, 5) < 0 || dup2(other, 10) < 0 || dup2(hook, FIRST) < 0 ||
        dup2(10, FIRST + 1) < 0)
        return 1;
    char pid[32];
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    (void)setenv("LISTEN_PID", pid, 1);
    (void)setenv("LISTEN_FDS", "2", 1);
    (void)setenv("LISTEN_FDNAMES", "hook:control", 1);
    struct service *s = make(m);
    int fd = -1;
    if (getenv("LISTEN_FDS") || service_take_socket(s, "hook", AF_UNIX, SOCK_STREAM, &fd, NULL) != -EPROTOTYPE)
        return 2;
    if (service_take_socket(s, "hook", AF_UNIX, SOCK_SEQPACKET, &fd, NULL) != 0 || fd != FIRST)
        return 3;
    if (service_take_socket(s, "hook", AF_UNIX, SOCK_SEQPACKET, &fd, NULL) != -ENOENT)
        return 4;
    if (!service_untaken(s) || strcmp(service_untaken(s), "control") != 0)
        return 5;
    service_free(s);
    return close(FIRST) == 0 && close(FIRST + 1) < 0 ? 0 : 6;
}

static void test_inherited(void **state)
{
    struct manager *m = *state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(inherit_and_take(m));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_bad_environment(void **state)
{
    struct manager *m = *state;
    struct service *s = NULL;
    struct kymo_err err = {0};
    assert_int_equal(setenv("WATCHDOG_USEC", "soon", 1), 0);
    assert_int_equal(service_new(&m->loop, &s, &err), -EINVAL);
    assert_non_null(strstr(err.text, "WATCHDOG_USEC"));
    assert_null(s);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_words),       T(test_without_manager), T(test_watchdog),
        T(test_hung_thread), T(test_inherited),       T(test_bad_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
