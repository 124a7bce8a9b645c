/* The receiver with the store's thread behind it: what daemons hear when all is well and when the disk is not. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/collector_world.h"

#define FULL KYMO__WIRE__REFUSAL__REASON__FULL
#define IO_ERROR KYMO__WIRE__REFUSAL__REASON__IO
#define DAMAGED KYMO__WIRE__REFUSAL__REASON__DAMAGED
#define INVALID KYMO__WIRE__REFUSAL__REASON__INVALID
#define BUSY KYMO__WIRE__REFUSAL__REASON__BUSY

#define BIG (3u << 20)

static struct collector_world w;
static char reason[KYMO_ERR_TEXT_MAX];
static uint8_t neff[BIG];

static int set_up(void **state)
{
    (void)state;
    collector_world_prepare(&w);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    collector_world_done(&w);
    return 0;
}

static struct uplink_peer *connect_peer(const char *host)
{
    struct uplink_peer *p = collector_world_peer(&w, host, NULL);
    uplink_peer_connect(p, receiver_port(w.receiver));
    return p;
}

static void wait_stored(struct uplink_peer *p, size_t n)
{
    if (!collector_world_run(&w, &p->stored, n, WORLD_WAIT_MS))
        fail_msg("stored %zu of %zu: %s", p->stored, n, p->n ? p->captures[0].text : "");
}

static void stores_captures(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *p = connect_peer("h1");
    collector_world_add(p, "a", 1, BIG, neff, 1000);
    collector_world_add(p, "b", 2, 0, neff, 1000);
    collector_world_add(p, "c", 3, 70000, NULL, 0);
    wait_stored(p, 3);
    assert_int_equal(p->refusals, 0);
    collector_world_check(&w, "a", 1, BIG);
    collector_world_check(&w, "b", 2, 0);
    collector_world_check(&w, "c", 3, 70000);
    assert_string_equal(collector_world_state(&w, "a", reason), "queued");
    /* Asked again, the collector wants nothing; the second capture did not bring the NEFF again. */
    assert_int_equal(p->read, BIG + 1000 + 70000);
    struct uplink_peer *again = connect_peer("h1");
    collector_world_add(again, "a", 1, BIG, neff, 1000);
    wait_stored(again, 1);
    assert_int_equal(again->read, 0);
}

/* Two hosts of one job come with the same program at the same time. */
static void neffs_come_once(void **state)
{
    (void)state;
    collector_world_open(&w);
    atomic_store(&world_sync_ms, 20);
    struct uplink_peer *p[4];
    for (int i = 0; i < 4; i++) {
        char id[8], host[8];
        (void)snprintf(id, sizeof id, "c%d", i);
        (void)snprintf(host, sizeof host, "h%d", i);
        p[i] = connect_peer(host);
        collector_world_add(p[i], id, (unsigned)i, 1000, neff, sizeof neff);
    }
    uint64_t read = 0;
    for (int i = 0; i < 4; i++) {
        wait_stored(p[i], 1);
        read += p[i]->read;
    }
    assert_int_equal(read, sizeof neff + 4 * 1000);
}

static void nobody_waits_for_a_neff_for_ever(void **state)
{
    (void)state;
    w.intakes_config.neff_still_ms = 100;
    collector_world_open(&w);
    struct uplink_peer *slow = connect_peer("slow"), *other, *gone;
    slow->stall_after = 1000;
    collector_world_add(slow, "s", 1, 10, neff, sizeof neff);
    assert_true(collector_world_run(&w, &slow->hellos, 1, WORLD_WAIT_MS));
    collector_world_wait_bytes(&w, 1000);
    other = connect_peer("other");
    collector_world_add(other, "o", 2, 10, neff, sizeof neff);
    /* One that waits may go away as well. */
    gone = connect_peer("gone");
    collector_world_add(gone, "g", 3, 10, neff, sizeof neff);
    assert_true(collector_world_run(&w, &gone->hellos, 1, WORLD_WAIT_MS));
    uplink_peer_disconnect(gone);
    wait_stored(other, 1);
    assert_int_equal(slow->stored, 0);
    /* What the slow one has still to bring is here. */
    slow->stall_after = 0;
    wait_stored(slow, 1);
    assert_int_equal(gone->stored, 0);
}

static void wait_refused(struct uplink_peer *p, int why, const char *text)
{
    assert_true(collector_world_run(&w, &p->refusals, p->refusals + 1, WORLD_WAIT_MS));
    assert_int_equal(p->captures[0].why, why);
    if (!strstr(p->captures[0].text, text))
        fail_msg("\"%s\" does not say \"%s\"", p->captures[0].text, text);
}

static void a_full_disk_is_a_state(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *p = connect_peer("h1");
    collector_world_add(p, "warm", 9, 10, NULL, 0);
    wait_stored(p, 1);
    atomic_store(&world_write_error, ENOSPC);
    struct uplink_peer *q = connect_peer("h2");
    collector_world_add(q, "f", 1, BIG, NULL, 0);
    wait_refused(q, FULL, "No space left");
    assert_string_equal(collector_world_state(&w, "f", reason), "receiving");
    assert_non_null(strstr(reason, "No space left"));
    wait_refused(q, FULL, "No space left");
    /* By itself, when there is room again. */
    atomic_store(&world_write_error, 0);
    wait_stored(q, 1);
    collector_world_check(&w, "f", 1, BIG);
    assert_string_equal(collector_world_state(&w, "f", reason), "queued");
    assert_string_equal(reason, "");
}

static void a_full_disk_in_the_middle(void **state)
{
    (void)state;
    w.config.window = 1 << 20;
    collector_world_open(&w);
    struct uplink_peer *p = connect_peer("h1");
    p->stall_after = 1 << 19;
    collector_world_add(p, "f", 1, BIG, NULL, 0);
    assert_true(collector_world_run(&w, &p->hellos, 1, WORLD_WAIT_MS));
    collector_world_wait_bytes(&w, 1 << 18);
    atomic_store(&world_write_error, ENOSPC);
    p->stall_after = 0;
    wait_refused(p, FULL, "No space left");
    atomic_store(&world_write_error, 0);
    wait_stored(p, 1);
    collector_world_check(&w, "f", 1, BIG);
    /* What was here before was not sent again, but for what was under way. */
    assert_true(p->read < BIG + (2u << 20));
}

static void a_failed_sync_is_not_trusted(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *p = connect_peer("h1");
    collector_world_add(p, "warm", 9, 10, NULL, 0);
    wait_stored(p, 1);
    struct uplink_peer *q = connect_peer("h2");
    q->stall_after = 1000;
    collector_world_add(q, "f", 1, BIG, NULL, 0);
    assert_true(collector_world_run(&w, &q->hellos, 1, WORLD_WAIT_MS));
    collector_world_wait_bytes(&w, 10 + 1000);
    atomic_store(&world_sync_error, EIO);
    q->stall_after = 0;
    wait_refused(q, IO_ERROR, "");
    atomic_store(&world_sync_error, 0);
    wait_stored(q, 1);
    collector_world_check(&w, "f", 1, BIG);
}

static void a_slow_disk_keeps_nobody_from_talking(void **state)
{
    (void)state;
    collector_world_open(&w);
    atomic_store(&world_sync_ms, 2 * WORLD_WAIT_MS);
    struct uplink_peer *p = connect_peer("h1");
    collector_world_add(p, "a", 1, 1000, NULL, 0);
    assert_true(collector_world_run(&w, &p->hellos, 1, WORLD_WAIT_MS));
    struct uplink_peer *q = connect_peer("h2");
    assert_true(collector_world_run(&w, &q->hellos, 1, WORLD_WAIT_MS));
    assert_int_equal(p->stored, 0);
    atomic_store(&world_sync_ms, 0);
    wait_stored(p, 1);
}

/* Bytes that wait for a disk that does not answer are bounded, by not reading. */
static void memory_is_bounded(void **state)
{
    (void)state;
    enum { LIMIT = 1 << 20, PIECES = 4 * (256 << 10) };
    w.config.max_bytes = LIMIT;
    w.config.ping_ms = 200;
    w.config.dead_ms = 1000;
    w.intakes_config.sync_bytes = 1 << 18;
    collector_world_open(&w);
    struct uplink_peer *p[4];
    for (int i = 0; i < 4; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "c%d", i);
        p[i] = connect_peer("h");
        collector_world_add(p[i], id, (unsigned)i, BIG, NULL, 0);
    }
    atomic_store(&world_sync_ms, 15);
    uint64_t most = 0;
    for (int turn = 0; turn < 12000 && p[0]->stored + p[1]->stored + p[2]->stored + p[3]->stored < 4; turn++) {
        collector_world_turn(&w, 5);
        most = intakes_bytes(w.intakes) > most ? intakes_bytes(w.intakes) : most;
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(p[i]->stored, 1);
        assert_int_equal(p[i]->breaks, 0);
    }
    assert_true(most < LIMIT + PIECES);
}

static void what_does_not_fit_together_is_refused(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *p = connect_peer("h1");
    p->give_up = true;
    collector_world_add(p, "hash", 1, 5000, NULL, 0);
    p->captures[0].data[0][4000] ^= 1;
    wait_refused(p, DAMAGED, "SHA-256");
    struct uplink_peer *q = connect_peer("h2");
    q->give_up = true;
    collector_world_add(q, "size", 1, 5000, NULL, 0);
    q->captures[0].items[0].size--;
    wait_refused(q, INVALID, "differs from its manifest");
    struct uplink_peer *r = connect_peer("h3");
    r->give_up = true;
    collector_world_add(r, "id", 1, 5000, NULL, 0);
    r->captures[0].id[0] = 'x';
    wait_refused(r, INVALID, "is of capture id");
    struct uplink_peer *s = connect_peer("h4");
    s->give_up = true;
    collector_world_add(s, "left", 1, 5000, neff, 100);
    s->captures[0].n_items = 1;
    s->captures[0].items++;
    s->captures[0].data++;
    wait_refused(s, INVALID, "p.ntff is not offered");
    s->captures[0].items--;
    s->captures[0].data--;
    s->captures[0].n_items = 2;
    struct uplink_peer *t = connect_peer("h5");
    t->give_up = true;
    collector_world_add(t, "none", 1, 5000, neff, 100);
    t->captures[0].manifest_n /= 2;
    wait_refused(t, INVALID, "");
    assert_string_equal(collector_world_state(&w, "left", reason), "");
}

static void a_daemon_that_comes_again_goes_on(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *old = connect_peer("h1"), *new, *other;
    old->stall_after = 1 << 20;
    collector_world_add(old, "c", 1, BIG, NULL, 0);
    assert_true(collector_world_run(&w, &old->hellos, 1, WORLD_WAIT_MS));
    collector_world_wait_bytes(&w, 1 << 19);
    /* Somebody else's capture. */
    other = connect_peer("h2");
    other->give_up = true;
    collector_world_add(other, "c", 1, BIG, NULL, 0);
    wait_refused(other, BUSY, "is being received from h1");
    old->give_up = true;
    new = connect_peer("h1");
    collector_world_add(new, "c", 1, BIG, NULL, 0);
    wait_stored(new, 1);
    collector_world_check(&w, "c", 1, BIG);
    assert_true(new->read < BIG);
}

static void a_restart_goes_on(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *p = connect_peer("h1");
    p->stall_after = BIG / 2;
    collector_world_add(p, "c", 1, BIG, NULL, 0);
    collector_world_add(p, "d", 2, BIG, neff, 5000);
    assert_true(collector_world_run(&w, &p->hellos, 1, WORLD_WAIT_MS));
    collector_world_wait_bytes(&w, BIG / 4);
    uplink_peer_disconnect(p);
    collector_world_stop(&w);
    collector_world_open(&w);
    assert_string_equal(collector_world_state(&w, "c", reason), "receiving");
    p->stall_after = 0;
    uplink_peer_connect(p, receiver_port(w.receiver));
    wait_stored(p, 2);
    collector_world_check(&w, "c", 1, BIG);
    collector_world_check(&w, "d", 2, BIG);
    assert_true(p->read < 2 * BIG + 5000 + BIG / 2);
}

static int add_captures(void *ctx, const char *source, const struct catalog_host_loss *row)
{
    assert_string_equal(source, "h1");
    assert_string_equal(row->cause, "evicted");
    *(uint64_t *)ctx += row->captures;
    return 0;
}

static uint64_t captures_lost(void)
{
    struct catalog *c;
    char path[128];
    uint64_t n = 0;
    (void)snprintf(path, sizeof path, "%s/store/catalog.db", w.root);
    assert_int_equal(catalog_open(path, true, &c, NULL), 0);
    assert_int_equal(catalog_list_host_losses(c, NULL, add_captures, &n, NULL), 0);
    catalog_free(c);
    return n;
}

static void tell_losses(struct uplink_peer *p, uint64_t captures)
{
    char cause[] = "evicted";
    uint64_t batch;
    Kymo__Uplink__HostLoss row = KYMO__UPLINK__HOST_LOSS__INIT;
    row.has_row = row.has_first_seq = row.has_last_seq = row.has_captures = row.has_bytes = 1;
    row.has_first_unix_ns = row.has_last_unix_ns = 1;
    row.row = row.first_seq = 1;
    row.last_seq = captures;
    row.captures = captures;
    row.first_unix_ns = row.last_unix_ns = 1700000000000000000u;
    row.cause = cause;
    assert_int_equal(uplink_send_losses(p->send, &row, 1, &batch, NULL), 0);
}

/* Durable before they are answered; told again they are the same rows. */
static void keeps_what_a_host_lost(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *p = connect_peer("h1");
    assert_true(collector_world_run(&w, &p->hellos, 1, WORLD_WAIT_MS));
    tell_losses(p, 3);
    assert_true(collector_world_run(&w, &p->losses_kept, 1, WORLD_WAIT_MS));
    assert_int_equal(captures_lost(), 3);
    /* Several at once: those that find the first under way are not answered, and nobody is hurt. */
    for (uint64_t i = 0; i < 20; i++)
        tell_losses(p, 5);
    assert_true(collector_world_run(&w, &p->losses_kept, 2, WORLD_WAIT_MS));
    assert_int_equal(captures_lost(), 5);
    assert_int_equal(p->breaks, 0);
}

struct answers {
    size_t calls, n;
    struct receiver_answer list[WORLD_PEERS];
    char id[WIRE_ID_MAX + 1];
};

static void on_answered(void *ctx, uint64_t id, const struct receiver_answer *answers, size_t n)
{
    struct answers *a = ctx;
    (void)id;
    a->calls++;
    a->n = n;
    for (size_t i = 0; i < n; i++) {
        a->list[i] = answers[i];
        if (answers[i].n_ids)
            memcpy(a->id, answers[i].ids[0], sizeof a->id);
    }
}

static const struct receiver_answer *answer_of(const struct answers *a, const char *host)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->list[i].identity, host) == 0)
            return &a->list[i];
    fail_msg("no answer of %s", host);
    return NULL;
}

static void asks_for_captures(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct receiver_request q = {.job = "train", .mode = "model", .has_step = true, .step = 7, .timeout_ms = 60000};
    struct answers a = {0};
    struct kymo_err err = {0};
    uint64_t id;
    assert_int_equal(receiver_request(w.receiver, &q, on_answered, &a, &id, &err), -ENOENT);
    struct uplink_peer *good = connect_peer("good"), *bad = connect_peer("bad"), *mute = connect_peer("mute");
    bad->refuse = "no such job here";
    mute->silent = true;
    assert_true(collector_world_run(&w, &good->hellos, 1, WORLD_WAIT_MS) &&
                collector_world_run(&w, &bad->hellos, 1, WORLD_WAIT_MS) &&
                collector_world_run(&w, &mute->hellos, 1, WORLD_WAIT_MS));
    /* One that does not answer in time. */
    q.host = "mute";
    q.timeout_ms = 100;
    assert_int_equal(receiver_request(w.receiver, &q, on_answered, &a, &id, &err), 0);
    assert_true(collector_world_run(&w, &a.calls, 1, WORLD_WAIT_MS));
    assert_int_equal(answer_of(&a, "mute")->code, -ETIMEDOUT);
    /* All: some answer, and one goes. */
    q.host = NULL;
    q.timeout_ms = 60000;
    assert_int_equal(receiver_request(w.receiver, &q, on_answered, &a, &id, &err), 0);
    collector_world_run(&w, &good->requests, 1, WORLD_WAIT_MS);
    collector_world_run(&w, &bad->requests, 1, WORLD_WAIT_MS);
    collector_world_turn(&w, 100);
    uplink_peer_disconnect(mute);
    assert_true(collector_world_run(&w, &a.calls, 2, WORLD_WAIT_MS));
    assert_int_equal(a.n, 3);
    assert_int_equal(answer_of(&a, "good")->code, 0);
    assert_string_equal(a.id, "wanted-1");
    assert_int_equal(answer_of(&a, "bad")->code, -ECONNREFUSED);
    assert_int_equal(answer_of(&a, "bad")->why, KYMO__WIRE__REFUSAL__REASON__NOT_FOUND);
    assert_string_equal(answer_of(&a, "bad")->text, "no such job here");
    assert_int_equal(answer_of(&a, "mute")->code, -EPIPE);
    /* Nobody who listens. */
    q.host = "mute";
    assert_int_equal(receiver_request(w.receiver, &q, on_answered, &a, &id, &err), -ENOENT);
    q.host = "good";
    good->silent = true;
    assert_int_equal(receiver_request(w.receiver, &q, on_answered, &a, &id, &err), 0);
    receiver_cancel(w.receiver, id);
    q.mode = "";
    assert_int_equal(receiver_request(w.receiver, &q, on_answered, &a, &id, &err), -EINVAL);
    q.mode = NULL;
    assert_int_equal(receiver_request(w.receiver, &q, on_answered, &a, &id, &err), 0);
    collector_world_stop(&w);
    assert_int_equal(a.calls, 3);
    assert_int_equal(a.list[0].code, -EPIPE);
}

/* A store where another program works, or that is none, is told of with its cause. */
static void says_why_it_cannot_start(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct store_thread *t;
    struct kymo_err err = {0};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/store", w.root);
    struct store_thread_config sc = {.loop = &w.loop, .data_path = path, .no_work = true};
    assert_int_equal(store_thread_new(&sc, &t, &err), -EBUSY);
    assert_non_null(strstr(err.text, "works on this store"));
    sc.data_path = "/proc/nothing";
    assert_int_equal(store_thread_new(&sc, &t, &err), -ENOENT);
}

static uint64_t count_forgotten(enum incoming_cause cause)
{
    struct receiver_figures f;
    receiver_figures(w.receiver, &f);
    return f.forgotten[cause];
}

/* Two do not fit: the second comes later, and gets the room of the first once that has been let alone. */
static void limits_on_what_is_not_complete(void **state)
{
    (void)state;
    w.intakes_config.limits = (struct incoming_limits){.max_bytes = BIG + (1u << 20), .still_ms = 1};
    collector_world_open(&w);
    struct uplink_peer *p = connect_peer("h1"), *q;
    p->stall_after = BIG / 2;
    collector_world_add(p, "a", 1, BIG, NULL, 0);
    collector_world_wait_bytes(&w, BIG / 4);
    q = connect_peer("h2");
    collector_world_add(q, "b", 2, BIG, NULL, 0);
    wait_refused(q, FULL, "incoming-max = ");
    assert_string_equal(collector_world_state(&w, "a", reason), "receiving");
    assert_string_equal(collector_world_state(&w, "b", reason), "receiving");
    assert_non_null(strstr(reason, "must come later"));
    uplink_peer_disconnect(p);
    wait_stored(q, 1);
    assert_int_equal(count_forgotten(INCOMING_ROOM), 1);
    assert_string_equal(collector_world_state(&w, "a", reason), "");
    /* Its host has it still. */
    p->stall_after = 0;
    uplink_peer_connect(p, receiver_port(w.receiver));
    wait_stored(p, 1);
    collector_world_check(&w, "a", 1, BIG);
    collector_world_check(&w, "b", 2, BIG);
    assert_int_equal(count_forgotten(INCOMING_AGE), 0);
}

static void nobody_goes_on_with_it(void **state)
{
    (void)state;
    w.intakes_config.limits = (struct incoming_limits){.max_age_ms = 100};
    collector_world_open(&w);
    struct uplink_peer *p = connect_peer("h1");
    p->stall_after = BIG / 2;
    collector_world_add(p, "a", 1, BIG, NULL, 0);
    collector_world_wait_bytes(&w, BIG / 4);
    /* While its host is here it may be as slow as it likes. */
    collector_world_turn(&w, 1500);
    assert_int_equal(count_forgotten(INCOMING_AGE), 0);
    uplink_peer_disconnect(p);
    for (unsigned ms = 0; ms < WORLD_WAIT_MS && !count_forgotten(INCOMING_AGE); ms++)
        collector_world_turn(&w, 1);
    assert_string_equal(collector_world_state(&w, "a", reason), "");
    p->stall_after = 0;
    uplink_peer_connect(p, receiver_port(w.receiver));
    wait_stored(p, 1);
    collector_world_check(&w, "a", 1, BIG);
    assert_int_equal(count_forgotten(INCOMING_AGE), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(stores_captures),
        T(neffs_come_once),
        T(nobody_waits_for_a_neff_for_ever),
        T(a_full_disk_is_a_state),
        T(a_full_disk_in_the_middle),
        T(a_failed_sync_is_not_trusted),
        T(a_slow_disk_keeps_nobody_from_talking),
        T(memory_is_bounded),
        T(what_does_not_fit_together_is_refused),
        T(a_daemon_that_comes_again_goes_on),
        T(a_restart_goes_on),
        T(limits_on_what_is_not_complete),
        T(nobody_goes_on_with_it),
        T(keeps_what_a_host_lost),
        T(asks_for_captures),
        T(says_why_it_cannot_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
