/* Clients are taken in, a full process pauses and goes on, and a socket file is removed by who made it alone. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sock.h"
#include "daemon/acceptor.h"

#define TURNS_MAX 3000

struct world {
    char dir[64], path[96];
    uv_loop_t loop;
    struct acceptor *acceptor;
    int taken, full;
};

static void on_taken(void *ctx, int fd)
{
    struct world *w = ctx;
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(close(fd), 0);
    w->taken++;
}

static void on_full(void *ctx, int error)
{
    struct world *w = ctx;
    assert_int_equal(error, EMFILE);
    w->full++;
}

static struct acceptor_config config_of(struct world *w, int fd)
{
    return (struct acceptor_config){
        .path = w->path, .listen_fd = fd, .stream = true, .mode = 0620, .taken = on_taken, .full = on_full, .ctx = w};
}

static int setup(void **state)
{
    static struct world w;
    w = (struct world){.dir = "/tmp/kymo-acceptor-XXXXXX"};
    assert_non_null(mkdtemp(w.dir));
    (void)snprintf(w.path, sizeof w.path, "%s/s", w.dir);
    assert_int_equal(uv_loop_init(&w.loop), 0);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    w->acceptor = acceptor_stop(w->acceptor);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    return kymo_file_remove_tree(w->dir, NULL);
}

static void turn_until(struct world *w, const int *count, int wanted)
{
    for (int i = 0; i < TURNS_MAX && *count < wanted; i++) {
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
        (void)usleep(1000);
    }
    assert_int_equal(*count, wanted);
}

static void test_file(void **state)
{
    struct world *w = *state;
    struct acceptor_config c = config_of(w, -1);
    struct stat st;
    assert_int_equal(acceptor_start(&w->loop, &c, &w->acceptor, NULL), 0);
    assert_int_equal(stat(w->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0620);
    int fd = kymo_sock_connect_stream(w->path, NULL);
    assert_true(fd >= 0);
    turn_until(w, &w->taken, 1);
    (void)close(fd);
    w->acceptor = acceptor_stop(w->acceptor);
    assert_int_equal(access(w->path, F_OK), -1);
}

static void test_file_kept(void **state)
{
    struct world *w = *state;
    struct acceptor_config c = config_of(w, -1);
    c.keep_file = true;
    assert_int_equal(acceptor_start(&w->loop, &c, &w->acceptor, NULL), 0);
    w->acceptor = acceptor_stop(w->acceptor);
    assert_int_equal(access(w->path, F_OK), 0);
    c.keep_file = false; /* A stale file is no hindrance. */
    assert_int_equal(acceptor_start(&w->loop, &c, &w->acceptor, NULL), 0);
}

static void test_file_of_another(void **state)
{
    struct world *w = *state;
    struct acceptor_config c = config_of(w, -1);
    assert_int_equal(acceptor_start(&w->loop, &c, &w->acceptor, NULL), 0);
    assert_int_equal(unlink(w->path), 0);
    int other = kymo_sock_listen_stream(w->path, NULL);
    assert_true(other >= 0);
    w->acceptor = acceptor_stop(w->acceptor);
    assert_int_equal(access(w->path, F_OK), 0);
    (void)close(other);
}

static void test_given(void **state)
{
    struct world *w = *state;
    int fd = kymo_sock_listen_stream(w->path, NULL);
    assert_true(fd >= 0);
    struct acceptor_config c = config_of(w, fd);
    assert_int_equal(acceptor_start(&w->loop, &c, &w->acceptor, NULL), 0);
    assert_int_equal(acceptor_fd(w->acceptor), fd);
    w->acceptor = acceptor_stop(w->acceptor);
    assert_int_equal(access(w->path, F_OK), 0);
}

static void test_failures(void **state)
{
    struct world *w = *state;
    struct acceptor_config c = config_of(w, -1);
    struct acceptor *second = NULL;
    struct kymo_err err = {0};
    assert_int_equal(acceptor_start(&w->loop, &c, &w->acceptor, NULL), 0);
    assert_int_equal(acceptor_start(&w->loop, &c, &second, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, w->path));
    assert_null(second);
    int plain = open("/dev/null", O_RDONLY | O_CLOEXEC);
    c = config_of(w, plain); /* Nothing that can be waited for. */
    assert_true(acceptor_start(&w->loop, &c, &second, &err) < 0);
    assert_int_equal(close(plain), -1); /* It is closed already. */
    assert_null(acceptor_stop(NULL));
}

static void test_full(void **state)
{
    struct world *w = *state;
    struct acceptor_config c = config_of(w, -1);
    assert_int_equal(acceptor_start(&w->loop, &c, &w->acceptor, NULL), 0);
    int fd = kymo_sock_connect_stream(w->path, NULL);
    assert_true(fd >= 0);
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < TURNS_MAX && !w->full; i++)
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(w->full, 1);
    assert_int_equal(w->taken, 0);
    turn_until(w, &w->taken, 1);
    (void)close(fd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_file),  T(test_file_kept), T(test_file_of_another),
                                       T(test_given), T(test_failures),  T(test_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
