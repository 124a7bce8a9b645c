#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* What log wrote to stderr, in out (terminated); returns its length. */
static size_t capture(char *out, size_t room, enum kymo_log_level level, const char *text)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0 && dup2(pipes[1], STDERR_FILENO) >= 0);
    errno = ENOENT;
    kymo_log(level, "%s", text);
    int after = errno;
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    (void)close(pipes[1]);
    ssize_t n = read(pipes[0], out, room - 1);
    (void)close(pipes[0]);
    assert_true(n >= 0);
    assert_int_equal(after, ENOENT);
    out[n] = '\0';
    return (size_t)n;
}

static void test_lines(void **state)
{
    (void)state;
    char out[2048];
    kymo_log_init("kymo-try", KYMO_LOG_WARNING);
    (void)capture(out, sizeof out, KYMO_LOG_ERROR, "a.ntff: cut");
    assert_string_equal(out, "kymo-try: a.ntff: cut\n");
    (void)capture(out, sizeof out, KYMO_LOG_WARNING, "ring 3 lost 4 records");
    assert_string_equal(out, "kymo-try: warning: ring 3 lost 4 records\n");
    assert_int_equal(capture(out, sizeof out, KYMO_LOG_INFO, "not shown"), 0);
}

static void test_lines_cannot_be_forged(void **state)
{
    (void)state;
    char out[2048];
    kymo_log_init("kymo-try", KYMO_LOG_DEBUG);
    (void)capture(out, sizeof out, KYMO_LOG_DEBUG, "name\nkymo-try: \033[2Jfine");
    assert_string_equal(out, "kymo-try: debug: name?kymo-try: ?[2Jfine\n");
}

static void test_long_lines_are_cut(void **state)
{
    (void)state;
    char big[3000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    char out[4096];
    kymo_log_init("kymo-try", KYMO_LOG_INFO);
    size_t n = capture(out, sizeof out, KYMO_LOG_INFO, big);
    assert_true(n > 1000 && n <= 1024);
    assert_int_equal(out[n - 1], '\n');
    assert_ptr_equal(strchr(out, '\n'), out + n - 1);
    kymo_log_init(big, KYMO_LOG_INFO);
    n = capture(out, sizeof out, KYMO_LOG_INFO, "text");
    assert_true(n <= 1024);
    kymo_log_init("kymo", KYMO_LOG_INFO);
}

static void test_journal(void **state)
{
    (void)state;
    static const char *const lines[] = {"<3>cut\n", "<4>cut\n", "<6>cut\n", "<7>cut\n"};
    struct stat st;
    char out[2048], stream[64];
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0 && dup2(pipes[1], STDERR_FILENO) >= 0 && fstat(pipes[1], &st) == 0);
    (void)snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
    kymo_log_init("kymo-try", KYMO_LOG_DEBUG);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    for (int level = KYMO_LOG_ERROR; level <= KYMO_LOG_DEBUG; level++) {
        (void)capture(out, sizeof out, (enum kymo_log_level)level, "cut");
        assert_string_equal(out, lines[level]);
    }
    /* Somebody else's stream, or none. */
    kymo_log_init("kymo-try", KYMO_LOG_INFO);
    (void)capture(out, sizeof out, KYMO_LOG_INFO, "cut");
    assert_string_equal(out, "kymo-try: cut\n");
    assert_int_equal(setenv("JOURNAL_STREAM", "x", 1), 0);
    kymo_log_init("kymo-try", KYMO_LOG_INFO);
    (void)capture(out, sizeof out, KYMO_LOG_INFO, "cut");
    assert_string_equal(out, "kymo-try: cut\n");
    assert_int_equal(unsetenv("JOURNAL_STREAM"), 0);
    (void)close(saved);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_cannot_be_forged),
        cmocka_unit_test(test_long_lines_are_cut),
        cmocka_unit_test(test_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
