/* What ranks are told about buffers: the operator's sizes, what losses have taught, the budget. */
#include "daemon/policy.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"

#define DMA 2
#define INSTRUCTION 1

static struct config config;
static struct host host;
static struct process who;
static struct learned *learned;
static char path[] = "/tmp/kymo-test-policy.XXXXXX";

static int set_up(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) < 0)
        return -1;
    return learned_open(path, &learned, &err);
}

static int tear_down(void **state)
{
    (void)state;
    learned = learned_free(learned);
    return unlink(path);
}

static void begin(void)
{
    config = (struct config){.policy = {.stall_ms = 5, .learn = 1}};
    host = (struct host){.instance = "trn2.48xlarge", .driver = "2.31.0", .has_driver = true};
    who = (struct process){.job = "llama"};
    process_set_label(&who, "visible_cores", "2-3");
}

static struct kymo_hook_policy make(char note[static POLICY_NOTE_MAX])
{
    const struct policy_inputs in = {.config = &config, .host = &host, .learned = learned, .who = &who};
    struct kymo_hook_policy p;
    policy_make(&in, &p, note);
    return p;
}

static void test_memory(void **state)
{
    (void)state;
    char note[POLICY_NOTE_MAX];
    begin();
    struct kymo_hook_policy p = make(note);
    assert_string_equal(note, "");
    for (int i = 0; i < CONFIG_BUFFERS; i++)
        assert_int_equal(p.buffer_mb[i], KYMO_HOOK_BUFFER_LEAVE);
    /* Two logical cores of two physical ones: the second half of device 0. */
    assert_int_equal(p.hbm_device, 0);
    assert_int_equal(p.hbm_core_first, 4);
    assert_int_equal(p.hbm_core_count, 4);
    assert_true(p.hbm_need_bytes > 0 && p.hbm_need_bytes < p.hbm_capacity_bytes);
    process_set_label(&who, "visible_cores", "5");
    p = make(note);
    assert_int_equal(p.hbm_device, 1);
    assert_int_equal(p.hbm_core_count, 2);
    host.instance[0] = '\0';
    p = make(note);
    assert_int_equal(p.hbm_need_bytes, 0);
}

static void test_budget(void **state)
{
    (void)state;
    char note[POLICY_NOTE_MAX];
    begin();
    struct kymo_hook_policy p = make(note);
    config.policy.hbm_budget = p.hbm_need_bytes / 4; /* it has two cores */
    p = make(note);
    assert_true(p.hbm_need_bytes / 2 <= config.policy.hbm_budget);
    assert_true(p.buffer_mb[INSTRUCTION] < 128);
    assert_non_null(strstr(note, "hbm-budget"));
    config.policy.hbm_budget = 1; /* cannot be held: the smallest there are */
    p = make(note);
    assert_int_equal(p.buffer_mb[DMA], 1);
}

static void test_learned(void **state)
{
    (void)state;
    char note[POLICY_NOTE_MAX], *text = NULL;
    uint64_t mb[CONFIG_BUFFERS] = {0};
    struct kymo_err err = {0};
    unsigned buffer = 99;
    size_t n;
    begin();
    assert_int_equal(learned_loss(learned, "llama", "DMA-E3(nc1)", 0, 10, mb, &buffer), 128);
    assert_int_equal(buffer, DMA);
    assert_int_equal(learned_loss(learned, "llama", "DMA-E4(nc1)", 0, 10, mb, &buffer), 0);
    assert_int_equal(learned_loss(learned, "llama", "INSTRUCTION(nc0)", 1000, 900, mb, &buffer), 2048);
    assert_int_equal(learned_loss(learned, "llama", "ERROR(nc0)", 0, 1, mb, &buffer), 0);
    assert_int_equal(learned_loss(learned, "llama", "EVENT(nc0)", 0, 0, mb, &buffer), 0);
    assert_int_equal(learned_loss(learned, "", "EVENT(nc0)", 0, 1, mb, &buffer), 0);
    assert_int_equal(learned_mb(learned, "other", DMA), 0);
    struct kymo_hook_policy p = make(note);
    assert_int_equal(p.buffer_mb[DMA], 128);
    assert_int_equal(p.buffer_mb[INSTRUCTION], 2048);
    assert_non_null(strstr(note, "DMA 64 -> 128 MB (records were lost)"));
    config.policy.learn = 0;
    assert_int_equal(make(note).buffer_mb[DMA], KYMO_HOOK_BUFFER_LEAVE);
    /* It outlives kymod, and a broken file does not end it. */
    assert_int_equal(learned_format(learned, &text, &n, &err), 0);
    assert_int_equal(kymo_file_write_atomic(path, text, n, &err), 0);
    kymo_free(text);
    learned = learned_free(learned);
    assert_int_equal(learned_open(path, &learned, &err), 0);
    assert_int_equal(learned_mb(learned, "llama", INSTRUCTION), 2048);
    static const char broken[] = "\t\t\nllama\tDMA\nx\tDMA\t0\nx\tNOTHING\t4\ny\tDMA\t99999\nz\tDMA\t256";
    assert_int_equal(kymo_file_write_atomic(path, broken, sizeof broken, &err), 0);
    learned = learned_free(learned);
    assert_int_equal(learned_open(path, &learned, &err), 0);
    assert_int_equal(learned_mb(learned, "z", DMA), 256);
    assert_int_equal(learned_mb(learned, "y", DMA), 0);
}

/* More jobs than there is room for: the one longest not heard of goes. */
static void test_many_jobs(void **state)
{
    (void)state;
    uint64_t mb[CONFIG_BUFFERS] = {0};
    unsigned buffer;
    char job[32];
    for (int i = 0; i < LEARNED_JOBS_MAX + 9; i++) {
        (void)snprintf(job, sizeof job, "many-%d", i);
        assert_int_equal(learned_loss(learned, job, "DMA-E0(nc0)", 0, 1, mb, &buffer), 128);
    }
    assert_int_equal(learned_mb(learned, "many-0", DMA), 0);
    assert_int_equal(learned_mb(learned, job, DMA), 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_learned),
        cmocka_unit_test(test_many_jobs),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
