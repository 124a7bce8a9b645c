#include "daemon/process.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ENVIRON(text) process_read_environ(&p, text, sizeof(text) - 1)

static void test_environ(void **state)
{
    (void)state;
    struct process p = {0};
    ENVIRON("PATH=/bin\0SLURM_JOB_ID=42\0SLURM_PROCID=3\0NEURON_RT_VISIBLE_CORES=4-7\0RANK=x\0");
    assert_string_equal(p.job, "slurm-42");
    assert_true(p.rank_known);
    assert_int_equal(p.rank, 3);
    assert_string_equal(process_label(&p, "visible_cores"), "4-7");
    p = (struct process){0};
    ENVIRON("SLURM_JOB_ID=42\0KYMO_JOB=llama\0RANK=17\0OMPI_COMM_WORLD_RANK=5\0KYMO_JOBS=no\0XRANK=1");
    assert_string_equal(p.job, "llama");
    assert_int_equal(p.rank, 17);
    assert_string_equal(process_label(&p, "nothing"), "");
    p = (struct process){0};
    ENVIRON("KYMO_JOB=\0RANK=-1\0RANK");
    assert_string_equal(p.job, "");
    assert_false(p.rank_known);
    ENVIRON("");
}

static void test_hostile_environ(void **state)
{
    (void)state;
    struct process p = {0};
    static char text[8192] = "KYMO_JOB=";
    ENVIRON("KYMO_JOB=a\nb\x1b[31m\xff\xc3\xa9\0");
    assert_string_equal(p.job, "a?b?[31m?\xc3\xa9");
    memset(text + 9, 'j', sizeof text - 9);
    p = (struct process){0};
    process_read_environ(&p, text, sizeof text);
    assert_int_equal(strlen(p.job), PROCESS_TEXT_MAX);
}

static void test_cores(void **state)
{
    (void)state;
    uint32_t c[8];
    assert_int_equal(process_parse_cores("2", c, 8), 1);
    assert_int_equal(c[0], 2);
    assert_int_equal(process_parse_cores("0,2-4", c, 8), 4);
    assert_int_equal(c[3], 4);
    assert_int_equal(process_parse_cores("4-2", c, 8), 0);
    assert_int_equal(process_parse_cores("0-9", c, 8), 0);
    assert_int_equal(process_parse_cores("99999", c, 8), 0);
}

static void test_this_process(void **state)
{
    (void)state;
    static struct process p;
    struct kymo_err err = {0};
    uint64_t start;
    assert_int_equal(process_read(getpid(), &p, &err), 0);
    assert_int_equal(process_start(getpid(), &start, &err), 0);
    assert_int_equal(p.start, start);
    assert_string_equal(process_label(&p, "comm"), "test_labels");
    assert_non_null(strstr(process_label(&p, "command"), "test_labels"));
    assert_true(p.job[0] != '\0');
    assert_int_equal(process_read(0x3fffffff, &p, &err), -ESRCH);
    assert_int_equal(process_read(0, &p, &err), -ESRCH);
    assert_int_equal(process_start(-1, &start, &err), -ESRCH);
}

/* Ranks of one launcher are one job; two launchers of one shell are two. */
static void test_tree(void **state)
{
    (void)state;
    static struct process a, b;
    struct kymo_err err = {0};
    pid_t kids[2];
    for (int i = 0; i < 2; i++) {
        kids[i] = fork();
        if (kids[i] == 0) {
            (void)pause();
            _exit(0);
        }
    }
    assert_int_equal(process_read(kids[0], &a, &err), 0);
    assert_int_equal(process_read(kids[1], &b, &err), 0);
    assert_string_equal(a.job, b.job);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kill(kids[i], SIGKILL), 0);
        assert_int_equal(waitpid(kids[i], NULL, 0), kids[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environ), cmocka_unit_test(test_hostile_environ),
        cmocka_unit_test(test_cores),   cmocka_unit_test(test_this_process),
        cmocka_unit_test(test_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
