#include "base/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"

static char dir[] = "/tmp/kymo-test-sock-XXXXXX";
static char path[64];

static int setup_group(void **state)
{
    (void)state;
    return !mkdtemp(dir) || snprintf(path, sizeof path, "%s/s", dir) < 0;
}

static int teardown_group(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

static int teardown(void **state)
{
    (void)state;
    kymo_sock_set_ops(NULL);
    return kymo_file_remove_tree(path, NULL);
}

static void make_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

static void close_pair(const int pair[2])
{
    kymo_file_close(pair[0]);
    kymo_file_close(pair[1]);
}

static void test_listen_connect_exchange(void **state)
{
    (void)state;
    int listener KYMO_CLOSE = kymo_sock_listen(path, NULL);
    assert_true(listener >= 0);
    int client KYMO_CLOSE = kymo_sock_connect(path, NULL);
    assert_true(client >= 0);
    int server KYMO_CLOSE = accept(listener, NULL, NULL);
    assert_true(server >= 0);
    assert_int_equal(kymo_sock_send(client, "hello", 5, NULL, 0, NULL), 0);
    char buf[16];
    size_t n = sizeof buf;
    size_t nfds = 0;
    assert_int_equal(kymo_sock_recv(server, buf, &n, NULL, &nfds, 1000, NULL), 0);
    assert_int_equal(n, 5);
    assert_memory_equal(buf, "hello", 5);
}

static void test_listen_replaces_a_stale_socket_only(void **state)
{
    (void)state;
    int first = kymo_sock_listen(path, NULL);
    assert_true(first >= 0);
    struct kymo_err err = {0};
    assert_int_equal(kymo_sock_listen(path, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "another process listens"));
    kymo_file_close(first);
    int second = kymo_sock_listen(path, NULL);
    assert_true(second >= 0);
    kymo_file_close(second);
    assert_int_equal(unlink(path), 0);

    assert_int_equal(kymo_file_write_atomic(path, "data", 4, NULL), 0);
    assert_int_equal(kymo_sock_listen(path, &err), -EEXIST);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 4);
}

static void test_bad_paths(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    char big[200];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_int_equal(kymo_sock_listen(big, &err), -ENAMETOOLONG);
    assert_int_equal(kymo_sock_connect("", &err), -ENAMETOOLONG);
    assert_int_equal(kymo_sock_connect("/nonexistent/s", &err), -ENOENT);
    assert_string_equal(err.text, "/nonexistent/s: cannot connect: No such file or directory");
}

static void test_descriptors_travel(void **state)
{
    (void)state;
    int pair[2];
    make_pair(pair);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(kymo_sock_send(pair[0], "fd", 2, pipes, 2, NULL), 0);
    char buf[8];
    size_t n = sizeof buf;
    int got[4];
    size_t nfds = 4;
    assert_int_equal(kymo_sock_recv(pair[1], buf, &n, got, &nfds, 1000, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(nfds, 2);
    assert_int_equal(fcntl(got[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(write(got[1], "x", 1), 1);
    assert_int_equal(read(pipes[0], buf, 1), 1);
    for (int i = 0; i < 2; i++) {
        kymo_file_close(got[i]);
        kymo_file_close(pipes[i]);
    }
    close_pair(pair);
}

/* The number that the next descriptor gets: equal before and after means that nothing leaked. */
static int next_descriptor(void)
{
    int fd = dup(0);
    kymo_file_close(fd);
    return fd;
}

static void test_unwanted_descriptors_are_closed(void **state)
{
    (void)state;
    int pair[2];
    make_pair(pair);
    int sent[3] = {pair[0], pair[0], pair[0]};
    int before = next_descriptor();
    char buf[8];
    struct kymo_err err = {0};
    for (size_t room = 0; room < 3; room++) {
        assert_int_equal(kymo_sock_send(pair[0], "fd", 2, sent, 3, NULL), 0);
        size_t n = sizeof buf;
        int got[3];
        size_t nfds = room;
        assert_int_equal(kymo_sock_recv(pair[1], buf, &n, got, room ? &nfds : NULL, 1000, &err), -EMSGSIZE);
        assert_int_equal(n, sizeof buf);
        assert_int_equal(nfds, room);
    }
    assert_int_equal(next_descriptor(), before);
    close_pair(pair);
}

static void test_limits_of_messages(void **state)
{
    (void)state;
    int pair[2];
    make_pair(pair);
    struct kymo_err err = {0};
    int many[KYMO_SOCK_FDS_MAX + 1];
    for (size_t i = 0; i <= KYMO_SOCK_FDS_MAX; i++)
        many[i] = pair[0];
    assert_int_equal(kymo_sock_send(pair[0], "x", 0, NULL, 0, &err), -EINVAL);
    assert_int_equal(kymo_sock_send(pair[0], "x", 1, many, KYMO_SOCK_FDS_MAX + 1, &err), -EINVAL);
    assert_int_equal(kymo_sock_send(pair[0], "x", 1, many, KYMO_SOCK_FDS_MAX, NULL), 0);
    char buf[4];
    size_t n = sizeof buf;
    int got[KYMO_SOCK_FDS_MAX];
    size_t nfds = KYMO_SOCK_FDS_MAX;
    assert_int_equal(kymo_sock_recv(pair[1], buf, &n, got, &nfds, 1000, NULL), 0);
    assert_int_equal(nfds, KYMO_SOCK_FDS_MAX);
    for (size_t i = 0; i < nfds; i++)
        kymo_file_close(got[i]);

    assert_int_equal(kymo_sock_send(pair[0], "12345", 5, NULL, 0, NULL), 0);
    n = sizeof buf;
    assert_int_equal(kymo_sock_recv(pair[1], buf, &n, NULL, NULL, 1000, &err), -EMSGSIZE);
    close_pair(pair);
}

static void test_deadline_and_end(void **state)
{
    (void)state;
    int pair[2];
    make_pair(pair);
    char buf[4];
    size_t n = sizeof buf;
    struct kymo_err err = {0};
    uint64_t begin = kymo_clock_mono_ns();
    assert_int_equal(kymo_sock_recv(pair[1], buf, &n, NULL, NULL, 30, &err), -ETIMEDOUT);
    assert_true(kymo_clock_mono_ns() - begin >= 30000000u);
    assert_int_equal(kymo_sock_recv(pair[1], buf, &n, NULL, NULL, 0, &err), -ETIMEDOUT);
    kymo_file_close(pair[0]);
    assert_int_equal(kymo_sock_recv(pair[1], buf, &n, NULL, NULL, 1000, &err), -EPIPE);
    assert_string_equal(err.text, "socket: the peer is gone");
    /* No signal kills the sender. */
    assert_int_equal(kymo_sock_send(pair[1], "x", 1, NULL, 0, &err), -EPIPE);
    kymo_file_close(pair[1]);
}

static int faults_left;
static int fault_errno;

static int due(void)
{
    if (faults_left == 0)
        return 0;
    faults_left--;
    errno = fault_errno;
    return 1;
}

static ssize_t faulty_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    return due() ? -1 : sendmsg(fd, msg, flags);
}

static ssize_t short_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    (void)fd;
    (void)flags;
    return (ssize_t)msg->msg_iov[0].iov_len - 1;
}

static ssize_t faulty_recvmsg(int fd, struct msghdr *msg, int flags)
{
    return due() ? -1 : recvmsg(fd, msg, flags);
}

static int faulty_socket(int domain, int type, int protocol)
{
    return due() ? -1 : socket(domain, type, protocol);
}

static int faulty_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    return due() ? -1 : connect(fd, addr, len);
}

static struct kymo_sock_ops faulty = {
    .socket = faulty_socket,
    .connect = faulty_connect,
    .sendmsg = faulty_sendmsg,
    .recvmsg = faulty_recvmsg,
};

static void inject(int count, int code)
{
    kymo_sock_set_ops(&faulty);
    faults_left = count;
    fault_errno = code;
}

static void test_interrupts_are_survived(void **state)
{
    (void)state;
    int pair[2];
    make_pair(pair);
    inject(3, EINTR);
    assert_int_equal(kymo_sock_send(pair[0], "x", 1, NULL, 0, NULL), 0);
    char buf[4];
    size_t n = sizeof buf;
    inject(3, EINTR);
    assert_int_equal(kymo_sock_recv(pair[1], buf, &n, NULL, NULL, 1000, NULL), 0);
    int listener KYMO_CLOSE = kymo_sock_listen(path, NULL);
    inject(3, EINTR);
    faulty.socket = socket;
    int client KYMO_CLOSE = kymo_sock_connect(path, NULL);
    faulty.socket = faulty_socket;
    assert_true(listener >= 0 && client >= 0);
    close_pair(pair);
}

static void test_failures_are_reported(void **state)
{
    (void)state;
    int pair[2];
    make_pair(pair);
    struct kymo_err err = {0};
    char buf[4];
    size_t n = sizeof buf;
    inject(1, ECONNRESET);
    assert_int_equal(kymo_sock_send(pair[0], "x", 1, NULL, 0, &err), -ECONNRESET);
    faulty.sendmsg = short_sendmsg;
    assert_int_equal(kymo_sock_send(pair[0], "xy", 2, NULL, 0, &err), -EIO);
    assert_string_equal(err.text, "socket: 1 of 2 bytes of a message were sent");
    faulty.sendmsg = faulty_sendmsg;
    assert_int_equal(kymo_sock_send(pair[0], "x", 1, NULL, 0, NULL), 0);
    inject(1, ECONNRESET);
    assert_int_equal(kymo_sock_recv(pair[1], buf, &n, NULL, NULL, 1000, &err), -ECONNRESET);
    /* A descriptor that is readable again and again without giving anything must not outlast the deadline. */
    inject(1 << 30, EAGAIN);
    assert_int_equal(kymo_sock_recv(pair[1], buf, &n, NULL, NULL, 20, &err), -ETIMEDOUT);
    inject(1, EMFILE);
    assert_int_equal(kymo_sock_listen(path, &err), -EMFILE);
    inject(1, EMFILE);
    assert_int_equal(kymo_sock_connect(path, &err), -EMFILE);
    close_pair(pair);
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_listen_connect_exchange),
        TEST(test_listen_replaces_a_stale_socket_only),
        TEST(test_bad_paths),
        TEST(test_descriptors_travel),
        TEST(test_unwanted_descriptors_are_closed),
        TEST(test_limits_of_messages),
        TEST(test_deadline_and_end),
        TEST(test_interrupts_are_survived),
        TEST(test_failures_are_reported),
    };
    return cmocka_run_group_tests(tests, setup_group, teardown_group);
}
