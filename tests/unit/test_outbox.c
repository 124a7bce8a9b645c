/* The outbox: take-over, and the way to collectors of all kinds. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "tests/unit/outbox_world.h"

static struct world w;

static int setup(void **state)
{
    (void)state;
    world_init(&w);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_done(&w);
    return 0;
}

static void test_loop(void **state)
{
    (void)state;
    world_listen(&w, 0);
    world_start(&w);
    world_add_neff(&w, 5000, 1);
    assert_int_equal(w.last_code, 0);
    assert_int_equal(w.neff_size, 5000);
    world_make(&w, "c1", 100000);
    world_make(&w, "c2", 0);
    uint64_t ticket;
    assert_int_equal(world_take(&w, "c1", SPOOL_RENAME, w.neff, &ticket), 0);
    world_until(&w, w.taken == 1);
    assert_int_equal(w.last_ticket, ticket);
    assert_int_equal(world_take(&w, "c2", SPOOL_COPY, w.neff, NULL), 0);
    world_until(&w, w.sent == 2);
    assert_false(world_intake_exists(&w, "c1"));
    assert_false(world_intake_exists(&w, "c2"));
    world_verify(&w, &w.collectors[0], "c1", 100000);
    world_verify(&w, &w.collectors[0], "c2", 0);
    assert_int_equal(w.collectors[0].n_neffs, 1);
    assert_int_equal(w.collectors[0].neffs[0].received, 1);
    world_until(&w, w.changes > 0);
    struct outbox_status s;
    outbox_get_status(w.outbox, &s);
    assert_int_equal(s.nlinks, 1);
    assert_int_equal(s.links[0].state, OUTBOX_LINK_UP);
}

static void test_losses(void **state)
{
    (void)state;
    world_listen(&w, 0);
    world_start(&w);
    assert_int_equal(outbox_lost(w.outbox, "l1", SPOOL_MISSING, NULL, NULL, NULL), 0);
    assert_int_equal(outbox_lost(w.outbox, "l2", SPOOL_MISSING, NULL, NULL, NULL), 0);
    world_until(&w, world_lost(&w.collectors[0], "missing") == 2);
    assert_int_equal(w.last_code, -ENODATA);
    assert_int_equal(w.last_cause, SPOOL_MISSING);
    assert_int_equal(w.failed, 2);
    struct outbox_status s;
    do {
        world_turn(&w);
        outbox_get_status(w.outbox, &s);
    } while (s.spool.loss_rows > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_losses, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
