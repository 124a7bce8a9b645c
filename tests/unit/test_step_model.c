/* Whose executions are steps: named by hash, by name, by number; told to the hook; hooks that cannot be told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "daemon/jobs_internal.h"
#include "formats/neff/neff_header.h"
#include "tests/unit/daemon_world.h"

#define NEFF_BYTES (NEFF_HEADER_SIZE + 100)

static uint8_t neffs[3][NEFF_BYTES];

static void make_neff(size_t i, const char *name)
{
    struct neff_header h = {.header_size = NEFF_HEADER_SIZE};
    (void)snprintf(h.name, sizeof h.name, "%s", name);
    neff_header_encode(&h, neffs[i]);
    memset(neffs[i] + NEFF_HEADER_SIZE, (int)i, NEFF_BYTES - NEFF_HEADER_SIZE);
}

/* What the hook says when a policy holds. */
static void say_state(struct hook_client *c, uint32_t step_model, uint32_t major)
{
    struct kymo_hook_state_msg m = {.state = KYMO_HOOK_RUN_READY, .answered = 1, .step_model = step_model};
    if (major > 0)
        memcpy(m.runtime_version, (const uint32_t[4]){major, 33, 0, 7}, sizeof m.runtime_version);
    (void)hook_client_say(c, KYMO_HOOK_STATE, &m, sizeof m, -1);
}

static uint32_t wanted;

static bool is_wanted(const struct world *w, const struct hook_client *c)
{
    (void)w;
    return c->policy.step_model == wanted;
}

static void wait_for(struct world *w, struct hook_client *c, uint32_t model)
{
    wanted = model;
    if (!world_until(w, c, is_wanted, 2000))
        fail_msg("the hook is told %u, not %u", c->policy.step_model, model);
}

static struct jobs_rank seen;
static char version[RANK_VERSION_MAX];

static int see(void *ctx, const struct jobs_rank *r)
{
    (void)ctx;
    seen = *r;
    (void)snprintf(version, sizeof version, "%s", r->runtime_version);
    return 0;
}

static bool shows_step(const struct world *w, const struct hook_client *c)
{
    (void)c;
    return jobs_each(w->jobs, see, NULL) == 0 && seen.step_model == wanted;
}

static void check_shown(struct world *w, struct hook_client *c, uint32_t model, uint64_t steps)
{
    wanted = model;
    if (!world_until(w, c, shows_step, 2000))
        fail_msg("steps are those of model %u, not %u", seen.step_model, model);
    assert_int_equal(seen.step, steps);
}

static struct world *begin(const char *settings, struct hook_client *c)
{
    struct world *w = world_new(settings);
    world_join(w, c);
    make_neff(0, "init");
    make_neff(1, "jit/train step");
    make_neff(2, "");
    for (size_t i = 0; i < 3; i++)
        hook_client_loaded(c, (uint32_t)i + 1, 0, neffs[i], NEFF_BYTES);
    c->page->slots[0].executions = 100;
    c->page->slots[1].executions = 10;
    c->page->slots[2].executions = 1;
    return w;
}

static void test_names(void **state)
{
    (void)state;
    struct hook_client c;
    struct world *w = begin("period = 0\nstep-model = jit/train*\n", &c);
    wait_for(w, &c, 2);
    /* A hook that was not told yet, or that is older, counts by what is executed most often. */
    check_shown(w, &c, 1, 100);
    say_state(&c, 2, 2);
    check_shown(w, &c, 2, 10);
    assert_string_equal(version, "2.33.0.7");
    world_reload(w, "period = 0\nstep-model = 3\n");
    wait_for(w, &c, 3);
    world_reload(w, "period = 0\nstep-model = nothing\n");
    wait_for(w, &c, 0);
    say_state(&c, 0, 0);
    check_shown(w, &c, 1, 100);
    assert_string_equal(version, "");
    hook_client_close(&c);
    (void)world_free(w);
}

/* The hash is known when the outbox has it: the policy is sent again. */
static void test_hash(void **state)
{
    (void)state;
    uint8_t sha256[KYMO_SHA256_SIZE];
    char hex[2 * KYMO_SHA256_SIZE + 1], settings[128];
    struct hook_client c;
    make_neff(2, "");
    assert_int_equal(kymo_hash_sha256(neffs[2], NEFF_BYTES, sha256), 0);
    kymo_hash_hex(sha256, KYMO_SHA256_SIZE, hex);
    (void)snprintf(settings, sizeof settings, "period = 0\n[job *]\nstep-model = %.12s\n", hex);
    struct world *w = begin(settings, &c);
    wait_for(w, &c, 3);
    say_state(&c, 3, 0);
    check_shown(w, &c, 3, 1);
    /* Unloaded, nothing matches; the hook falls back by itself, and so does the daemon. */
    struct kymo_hook_unloaded gone = {.model = 3, .executions = 1};
    (void)hook_client_say(&c, KYMO_HOOK_UNLOADED, &gone, sizeof gone, -1);
    wait_for(w, &c, 0);
    check_shown(w, &c, 1, 100);
    hook_client_close(&c);
    (void)world_free(w);
}

static void test_matching(void **state)
{
    (void)state;
    struct rank r = {.nmodels = 3,
                     .models = {{.number = 12, .is_loaded = true, .name = "deadbeef"},
                                {.number = 7, .is_loaded = true, .has_neff = true, .sha256 = {0xde, 0xad, 0xbe, 0xef}},
                                {.number = 3, .name = "deadbeef"}}};
    assert_int_equal(rank_step_model(&r, NULL), 0);
    assert_int_equal(rank_step_model(&r, ""), 0);
    assert_int_equal(rank_step_model(&r, "12"), 12);
    assert_int_equal(rank_step_model(&r, "3"), 0); /* not loaded any more */
    assert_int_equal(rank_step_model(&r, "DEADBEEF"), 7);
    assert_int_equal(rank_step_model(&r, "deadbee"), 0);
    assert_int_equal(rank_step_model(&r, "dead*"), 12);
    r.models[1].is_loaded = false;
    assert_int_equal(rank_step_model(&r, "deadbeef"), 12);
    assert_int_equal(rank_step_model(&r, "99999999999999999999999"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_matching),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
