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
#include "tests/unit/tls_sample.h"

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

static struct outbox_status status(void)
{
    struct outbox_status s;
    outbox_get_status(w.outbox, &s);
    return s;
}

static void make_and_take(const char *id, size_t size)
{
    world_make(&w, id, size);
    assert_int_equal(world_take(&w, id, SPOOL_RENAME, NULL, NULL), 0);
}

/* An outbox without collectors, which only takes. */
static void start_alone(void)
{
    struct kymo_err err = {0};
    w.config.collectors[0] = w.config.collectors[1] = NULL;
    if (outbox_start(&w.loop, &w.config, &w.outbox, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_losses(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    c->keeps_late = true;
    world_listen(&w, 0);
    world_start(&w);
    assert_int_equal(outbox_lost(w.outbox, "l1", SPOOL_MISSING, NULL, NULL, NULL), 0);
    assert_int_equal(outbox_lost(w.outbox, "l2", SPOOL_INTERRUPTED, NULL, NULL, NULL), 0);
    world_until(&w, c->n_losses > 0 && w.failed == 2);
    assert_int_equal(w.last_code, -ENODATA);
    assert_int_equal(w.last_cause, SPOOL_INTERRUPTED);
    /* Not before the collector has said so; and what it does not answer is told again, as the same. */
    world_until(&w, c->n_losses == 2);
    world_until(&w, status().spool.loss_rows == 2);
    c->keeps_late = false;
    world_until(&w, status().spool.loss_rows == 0);
    assert_int_equal(world_lost(c, "missing"), 1);
    assert_int_equal(world_lost(c, "interrupted"), 1);
}

static void test_losses_are_not_told_to_version_1(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    c->versions = (struct wire_range){1, 1};
    world_listen(&w, 0);
    world_start(&w);
    assert_int_equal(outbox_lost(w.outbox, "l1", SPOOL_MISSING, NULL, NULL, NULL), 0);
    make_and_take("c1", 1000);
    world_until(&w, w.sent == 1);
    world_run_ms(&w, 100);
    assert_int_equal(c->n_losses, 0);
    world_until(&w, status().spool.loss_rows == 1);
    /* The collector is upgraded. */
    world_unlisten(&w, 0);
    c->versions = (struct wire_range){0, 0};
    world_run_ms(&w, 20);
    world_listen(&w, 0);
    world_until(&w, world_lost(c, "missing") == 1 && status().spool.loss_rows == 0);
    world_verify(&w, c, "c1", 1000);
}

/* As after kymod was killed between publishing and removing the intake directory. */
static void test_taken_again(void **state)
{
    (void)state;
    start_alone();
    make_and_take("again", 5000);
    make_and_take("other", 5000);
    make_and_take("partly", 5000);
    make_and_take("broken", 5000);
    world_until(&w, w.taken == 4);
    w.outbox = outbox_stop(w.outbox);
    world_make(&w, "again", 5000);
    world_make(&w, "other", 4999);
    world_make(&w, "partly", 5000);
    world_make(&w, "broken", 10);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/partly/f0.ntff", w.intake);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/broken", w.intake);
    world_listen(&w, 0);
    world_start(&w);
    assert_int_equal(world_take(&w, "again", SPOOL_RENAME, NULL, NULL), 0);
    assert_int_equal(world_take(&w, "partly", SPOOL_RENAME, NULL, NULL), 0);
    assert_int_equal(outbox_lost(w.outbox, "broken", SPOOL_MISSING, path, NULL, NULL), 0);
    world_until(&w, w.taken == 7 && w.sent == 4);
    assert_int_equal(w.failed, 0);
    assert_false(world_intake_exists(&w, "again"));
    assert_false(world_intake_exists(&w, "partly"));
    assert_false(world_intake_exists(&w, "broken"));
    for (unsigned i = 0; i < 4; i++)
        world_verify(&w, &w.collectors[0], w.sent_ids[i], 5000);
    assert_int_equal(w.collectors[0].n_losses, 0);
}

static void test_another_under_the_same_id(void **state)
{
    (void)state;
    start_alone();
    make_and_take("same", 5000);
    world_until(&w, w.taken == 1);
    world_make(&w, "same", 4999);
    assert_int_equal(world_take(&w, "same", SPOOL_RENAME, NULL, NULL), 0);
    world_until(&w, w.failed == 1);
    assert_int_equal(w.last_code, -EEXIST);
    assert_true(world_intake_exists(&w, "same"));
}

/* Nothing goes out before outbox_go, though the collector is there. */
static void test_waits_for_go(void **state)
{
    (void)state;
    world_listen(&w, 0);
    char address[32];
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", w.collectors[0].port);
    w.config.collectors[0] = address;
    assert_int_equal(outbox_start(&w.loop, &w.config, &w.outbox, NULL), 0);
    make_and_take("c1", 100);
    world_until(&w, w.taken == 1);
    world_run_ms(&w, 60);
    assert_int_equal(w.collectors[0].connections, 0);
    assert_int_equal(outbox_go(w.outbox, NULL), 0);
    world_until(&w, w.sent == 1);
}

static void test_neffs(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    world_listen(&w, 0);
    world_start(&w);
    world_add_neff(&w, 300000, 1);
    uint8_t first[KYMO_SHA256_SIZE], nowhere[KYMO_SHA256_SIZE] = {7};
    memcpy(first, w.neff, sizeof first);
    for (int i = 0; i < 5; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "n%d", i);
        world_make(&w, id, 2000);
        assert_int_equal(world_take(&w, id, i % 2 ? SPOOL_COPY : SPOOL_RENAME, i < 4 ? first : nowhere, NULL), 0);
    }
    world_until(&w, w.sent == 5);
    assert_int_equal(c->n_neffs, 1);
    assert_int_equal(c->neffs[0].received, 1);
    assert_int_equal(world_find(c, "n3")->n_items, 3);
    /* One that the spool does not have is named by the NTFF alone. */
    assert_int_equal(world_find(c, "n4")->n_items, 2);
    outbox_drop_neff(w.outbox, first);
    outbox_drop_neff(w.outbox, first);
    outbox_drop_neff(w.outbox, nowhere);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    w.config.limits.neff_bytes_max = 10;
    assert_int_equal(outbox_add_neff(w.outbox, fd, "null", NULL, NULL), 0);
    world_until(&w, w.neffs == 2);
}

static void test_bad_orders(void **state)
{
    (void)state;
    start_alone();
    char id[] = "../x", good[] = "x";
    Kymo__Manifest__Capture meta = KYMO__MANIFEST__CAPTURE__INIT;
    struct outbox_file file = {.path = "/nowhere", .name = "a/b"};
    meta.capture_id = id;
    assert_int_equal(outbox_take(w.outbox, &meta, NULL, 0, SPOOL_COPY, NULL, NULL, NULL), -EINVAL);
    meta.capture_id = good;
    assert_int_equal(outbox_take(w.outbox, &meta, &file, 1, SPOOL_COPY, NULL, NULL, NULL), -EINVAL);
    file.name = "manifest.pb";
    assert_int_equal(outbox_take(w.outbox, &meta, &file, 1, SPOOL_COPY, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(outbox_lost(w.outbox, "x", 99, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(outbox_lost(w.outbox, "", SPOOL_FULL, NULL, NULL, NULL), -EINVAL);
    /* A file that is not there: its loss row, and an answer with the cause. */
    file.name = "a";
    assert_int_equal(outbox_take(w.outbox, &meta, &file, 1, SPOOL_COPY, NULL, NULL, NULL), 0);
    world_until(&w, w.failed == 1);
    assert_int_equal(w.last_code, -ENOENT);
    assert_int_equal(w.last_cause, SPOOL_FAILED);
    assert_non_null(strstr(w.last_err.text, "/nowhere"));
    world_until(&w, status().spool.lost.captures == 1);
}

/* The queue has an end, and says so. */
static void test_queue_is_bounded(void **state)
{
    (void)state;
    start_alone();
    int r = 0;
    unsigned n = 0;
    for (; r == 0 && n < 10000; n++) {
        char id[16];
        (void)snprintf(id, sizeof id, "q%u", n);
        r = outbox_lost(w.outbox, id, SPOOL_MISSING, NULL, NULL, NULL);
    }
    assert_int_equal(r, -EAGAIN);
    world_until(&w, w.failed == n - 1);
    world_until(&w, status().spool.lost.captures == n - 1);
}

static void test_cut_everywhere(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    world_listen(&w, 0);
    world_start(&w);
    make_and_take("first", 3000);
    world_until(&w, w.sent == 1);
    unsigned cuts = 0;
    /* Offer, data of two items, done: some 7,000 bytes. */
    for (uint64_t at = 1; at < 7500; at += 149, cuts++) {
        char id[16];
        (void)snprintf(id, sizeof id, "cut%u", cuts);
        world_cut_in(c, at);
        make_and_take(id, 3000);
        world_until(&w, w.sent == cuts + 2);
        world_verify(&w, c, id, 3000);
    }
    assert_true(c->connections > cuts / 2);
    assert_int_equal(w.given_up, 0);
}

/* What was stored is not sent again: the answer was lost with the connection. */
static void test_lost_answer(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    c->never_done = true;
    world_listen(&w, 0);
    world_start(&w);
    make_and_take("c1", 200000);
    world_until(&w, c->data_bytes == 400000);
    c->never_done = false;
    for (size_t i = 0; i < WORLD_CONNECTIONS; i++)
        if (c->peers[i])
            net_conn_close(c->peers[i]->conn);
    world_until(&w, w.sent == 1);
    assert_int_equal(c->data_bytes, 400000);
    world_verify(&w, c, "c1", 200000);
}

static void test_refused_for_now(void **state)
{
    (void)state;
    static const int codes[] = {-EBUSY, -ENOSPC, -EIO, -EPERM, -ENOENT, -EBADMSG};
    struct world_collector *c = &w.collectors[0];
    world_listen(&w, 0);
    world_start(&w);
    unsigned n = 0;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        for (int where = 0; where < 3; where++) {
            char id[16];
            (void)snprintf(id, sizeof id, "r%u", n);
            c->refuse_offers = where == 0 ? codes[i] : 0;
            c->refuse_writes = where == 1 ? codes[i] : 0;
            c->refuse_dones = where == 2 ? codes[i] : 0;
            c->refusals = 2;
            make_and_take(id, 3000);
            world_until(&w, w.sent == n + 1);
            world_verify(&w, c, id, 3000);
            n++;
        }
    assert_int_equal(c->refused, 2 * n);
    assert_int_equal(w.given_up, 0);
}

static void test_refused_for_ever(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *cause;
    } cases[] = {{-EINVAL, "refused"}, {-EOPNOTSUPP, "refused"}, {-EBADMSG, "unreadable"}};
    struct world_collector *c = &w.collectors[0];
    world_listen(&w, 0);
    world_start(&w);
    for (unsigned i = 0; i < 3; i++) {
        char id[16];
        uint64_t before = world_lost(c, cases[i].cause);
        (void)snprintf(id, sizeof id, "r%u", i);
        c->refuse_offers = cases[i].code;
        c->refusals = UINT32_MAX;
        make_and_take(id, 3000);
        world_until(&w, w.given_up == i + 1);
        assert_non_null(strstr(w.last_why.text, id));
        c->refuse_offers = 0;
        world_until(&w, world_lost(c, cases[i].cause) == before + 1);
    }
    make_and_take("good", 3000);
    world_until(&w, w.sent == 1);
}

/* One that is refused for now does not hold up the others, and a collector that refuses all gives way to the second. */
static void test_refused_one_and_all(void **state)
{
    (void)state;
    struct world_collector *first = &w.collectors[0], *second = &w.collectors[1];
    w.config.times.wait_min = w.config.times.wait_max = 1500;
    world_listen(&w, 0);
    world_listen(&w, 1);
    world_start(&w);
    first->refuse_offers = -EBUSY;
    first->refusals = 1;
    make_and_take("held", 1000);
    world_until(&w, first->refused == 1);
    make_and_take("free", 1000);
    world_until(&w, w.sent == 1);
    assert_string_equal(w.sent_ids[0], "free");
    world_until(&w, w.sent == 2);
    first->refuse_offers = -ENOSPC;
    first->refusals = UINT32_MAX;
    make_and_take("full", 1000);
    world_until(&w, w.sent == 3);
    world_verify(&w, second, "full", 1000);
}

static void test_two_collectors(void **state)
{
    (void)state;
    struct world_collector *first = &w.collectors[0], *second = &w.collectors[1];
    w.config.times.standby = 1000; /* a busy machine is no collector that is down */
    world_listen(&w, 0);
    world_listen(&w, 1);
    world_start(&w);
    make_and_take("a", 1000);
    world_until(&w, w.sent == 1);
    world_verify(&w, first, "a", 1000);
    assert_int_equal(second->connections, 0);
    assert_int_equal(status().links[1].state, OUTBOX_LINK_OFF);
    /* In the middle of a capture. */
    first->never_done = true;
    make_and_take("b", 1000);
    world_until(&w, first->data_bytes == 4000);
    world_unlisten(&w, 0);
    world_until(&w, w.sent == 2);
    world_verify(&w, second, "b", 1000);
    make_and_take("c", 1000);
    world_until(&w, w.sent == 3);
    world_verify(&w, second, "c", 1000);
    assert_int_equal(status().links[0].state == OUTBOX_LINK_UP, 0);
    assert_true(status().links[0].reason[0] != 0);
    /* Back to the first, once it has been up for a while; the second is let go. */
    first->never_done = false;
    world_listen(&w, 0);
    world_until(&w, status().links[0].state == OUTBOX_LINK_UP && status().links[1].state == OUTBOX_LINK_OFF);
    make_and_take("d", 1000);
    world_until(&w, w.sent == 4);
    world_verify(&w, first, "d", 1000);
    assert_int_equal(second->n_stored, 2);
}

static void test_second_alone(void **state)
{
    (void)state;
    world_listen(&w, 0);
    world_listen(&w, 1);
    world_unlisten(&w, 0); /* nobody at this port */
    world_start(&w);
    make_and_take("a", 1000);
    world_until(&w, w.sent == 1);
    world_verify(&w, &w.collectors[1], "a", 1000);
}

/* Files that are not what was published. */
static void test_unreadable(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    start_alone();
    make_and_take("short", 300000);
    make_and_take("gone", 300000);
    make_and_take("changed", 3000);
    make_and_take("no-manifest", 3000);
    make_and_take("good", 3000);
    world_until(&w, w.taken == 5);
    w.outbox = outbox_stop(w.outbox);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/captures/short/f1.ntff", w.spool);
    assert_int_equal(truncate(path, 100000), 0);
    (void)snprintf(path, sizeof path, "%s/captures/gone/f0.ntff", w.spool);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/captures/changed/f0.ntff", w.spool);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, "changed", 7, 100) == 7);
    (void)close(fd);
    (void)snprintf(path, sizeof path, "%s/captures/no-manifest/manifest.pb", w.spool);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, "\377\377\377\377", 4, 0) == 4);
    (void)close(fd);
    world_listen(&w, 0);
    world_start(&w);
    world_until(&w, w.sent == 1 && w.given_up == 4);
    assert_string_equal(w.sent_ids[0], "good");
    world_until(&w, world_lost(c, "unreadable") == 4);
    world_verify(&w, c, "good", 3000);
    world_until(&w, status().spool.pending.captures == 0);
}

static void test_evicted(void **state)
{
    (void)state;
    w.config.limits.bytes_max = 100000;
    w.config.limits.reserve_bytes = 4096;
    start_alone();
    for (int i = 0; i < 6; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "e%d", i);
        make_and_take(id, 10000);
        world_until(&w, w.taken == (unsigned)i + 1);
    }
    assert_int_equal(w.given_up, 2);
    assert_non_null(strstr(w.last_why.text, "evicted"));
    world_until(&w, status().spool.pending.captures == 4);
    world_until(&w, status().lag_bytes >= 80000);
    make_and_take("large", 200000);
    world_until(&w, w.failed == 1);
    assert_int_equal(w.last_cause, SPOOL_FULL);
    assert_false(world_intake_exists(&w, "large"));
}

static void test_requests(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    world_listen(&w, 0);
    world_start(&w);
    world_until(&w, status().nlinks == 1 && status().links[0].state == OUTBOX_LINK_UP);
    world_request(c, 41, "train");
    world_request(c, 42, "nothing");
    world_until(&w, c->replies == 1 && c->request_refusals == 1);
    assert_string_equal(c->reply_id, "wanted-1");
    /* More than may wait are refused at once; none is forgotten. */
    for (uint64_t i = 0; i < 300; i++)
        world_request(c, 100 + i, "train");
    world_until(&w, c->replies + c->request_refusals == 302);
    /* A late answer to nobody. */
    outbox_reply(w.outbox, 999999, NULL, 0);
    outbox_refuse(w.outbox, 999999, -EIO, "text");
    world_run_ms(&w, 20);
}

/* Events that are told by outbox_stop may give orders, which then go nowhere. */
static void test_orders_while_stopping(void **state)
{
    (void)state;
    world_listen(&w, 0);
    world_start(&w);
    world_until(&w, status().nlinks == 1 && status().links[0].state == OUTBOX_LINK_UP);
    for (uint64_t i = 0; i < 40; i++)
        world_request(&w.collectors[0], 1 + i, "train");
    struct outbox *o = w.outbox;
    for (uint64_t until = uv_hrtime() + 100000000u; uv_hrtime() < until;)
        outbox_get_status(o, &(struct outbox_status){0});
    w.outbox = outbox_stop(o);
    assert_int_equal(w.requests, 40);
}

static void test_rate(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    w.config.rate_bytes_s = 400000;
    world_listen(&w, 0);
    world_start(&w);
    make_and_take("slow", 150000);
    uint64_t start = uv_hrtime();
    world_until(&w, w.sent == 1);
    /* 300,000 bytes, of which a quarter of a second's worth may go at once. */
    assert_true(uv_hrtime() - start > 400000000u);
    world_verify(&w, c, "slow", 150000);
    w.config.rate_bytes_s = 0;
    assert_int_equal(outbox_reconfigure(w.outbox, &w.config, NULL), 0);
    start = uv_hrtime();
    make_and_take("fast", 150000);
    world_until(&w, w.sent == 2);
    assert_true(uv_hrtime() - start < 5000000000u);
}

static void test_silent_peer(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    w.config.times.idle = 400;
    w.config.times.ping = 40;
    c->deaf = true;
    world_listen(&w, 0);
    world_start(&w);
    world_until(&w, c->connections >= 2);
    world_until(&w, strstr(status().links[0].reason, "has said nothing") != NULL);
    c->deaf = false;
    make_and_take("a", 10);
    world_until(&w, w.sent == 1);
    /* One that answers pings stays. */
    unsigned before = c->connections;
    world_run_ms(&w, 1000);
    assert_int_equal(c->connections, before);
}

static void test_tls(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    char cert[96], key[96], ca[96];
    struct kymo_err err = {0};
    tls_sample_make(w.dir);
    (void)snprintf(cert, sizeof cert, "%s/" TLS_SAMPLE_CLIENT ".pem", w.dir);
    (void)snprintf(key, sizeof key, "%s/" TLS_SAMPLE_CLIENT ".key", w.dir);
    (void)snprintf(ca, sizeof ca, "%s/ca.pem", w.dir);
    c->tls = tls_sample_context(w.dir, TLS_SERVER, TLS_SAMPLE_SERVER, "ca");
    w.config.tls = (struct tls_files){.cert = cert, .key = key, .ca = ca};
    world_listen(&w, 0);
    world_start(&w);
    make_and_take("a", 400000);
    world_until(&w, w.sent == 1);
    world_verify(&w, c, "a", 400000);
    /* Files that are wrong are found out before anything changes; good ones are taken up. */
    w.config.tls.ca = "/nowhere/ca.pem";
    assert_true(outbox_reconfigure(w.outbox, &w.config, &err) < 0);
    assert_non_null(strstr(err.text, "/nowhere/ca.pem"));
    w.config.tls.ca = ca;
    unsigned before = c->connections;
    assert_int_equal(outbox_reconfigure(w.outbox, &w.config, NULL), 0);
    make_and_take("b", 1000);
    world_until(&w, w.sent == 2 && c->connections > before);
    world_verify(&w, c, "b", 1000);
}

static void test_other_collector(void **state)
{
    (void)state;
    world_listen(&w, 0);
    world_listen(&w, 1);
    int port = w.collectors[1].port;
    w.collectors[1].port = 0;
    world_start(&w);
    w.collectors[1].port = port;
    make_and_take("a", 1000);
    world_until(&w, w.sent == 1);
    char address[32];
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    w.config.collectors[0] = address;
    w.config.collectors[1] = NULL;
    assert_int_equal(outbox_reconfigure(w.outbox, &w.config, NULL), 0);
    make_and_take("b", 1000);
    world_until(&w, w.sent == 2);
    world_verify(&w, &w.collectors[1], "b", 1000);
    w.config.collectors[0] = "no port";
    assert_int_equal(outbox_reconfigure(w.outbox, &w.config, NULL), -EINVAL);
    w.config.collectors[0] = NULL;
    assert_int_equal(outbox_reconfigure(w.outbox, &w.config, NULL), 0);
    world_until(&w, status().nlinks == 0);
}

static void take_what_is_left(void)
{
    for (unsigned i = 0; i < 60; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%u", i);
        if (world_intake_exists(&w, id))
            assert_int_equal(world_take(&w, id, i % 3 ? SPOOL_RENAME : SPOOL_COPY, NULL, NULL), 0);
    }
}

/* Stopped in the midst of everything, and begun again: each arrives once. */
static void test_stop_under_load(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    world_listen(&w, 0);
    for (unsigned i = 0; i < 60; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%u", i);
        world_make(&w, id, 20000);
    }
    for (unsigned round = 0; round < 4; round++) {
        world_start(&w);
        take_what_is_left();
        for (unsigned i = 0; i < 1 + round * 6; i++)
            world_turn(&w);
        w.outbox = outbox_stop(w.outbox);
        assert_int_equal(w.failed, 0);
    }
    world_start(&w);
    take_what_is_left();
    world_until(&w, status().spool.delivered.captures == 60);
    world_until(&w, status().spool.pending.captures == 0);
    assert_int_equal(w.given_up, 0);
    assert_int_equal(c->n_stored, 60);
    for (unsigned i = 0; i < 60; i++)
        world_verify(&w, c, c->stored[i]->id, 20000);
}

static void test_many(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    w.config.zstd_level = 1;
    world_listen(&w, 0);
    world_start(&w);
    for (unsigned i = 0; i < 100; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "m%u", i);
        make_and_take(id, i * 53);
    }
    world_until(&w, w.sent == 100);
    /* In order. */
    for (unsigned i = 0; i < 100; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "m%u", i);
        assert_string_equal(w.sent_ids[i], id);
        world_verify(&w, c, id, i * 53);
    }
    world_until(&w, status().lag_bytes == 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_loop),
        TEST(test_losses),
        TEST(test_losses_are_not_told_to_version_1),
        TEST(test_taken_again),
        TEST(test_another_under_the_same_id),
        TEST(test_waits_for_go),
        TEST(test_neffs),
        TEST(test_bad_orders),
        TEST(test_queue_is_bounded),
        TEST(test_cut_everywhere),
        TEST(test_lost_answer),
        TEST(test_refused_for_now),
        TEST(test_refused_for_ever),
        TEST(test_refused_one_and_all),
        TEST(test_two_collectors),
        TEST(test_second_alone),
        TEST(test_unreadable),
        TEST(test_evicted),
        TEST(test_requests),
        TEST(test_orders_while_stopping),
        TEST(test_rate),
        TEST(test_silent_peer),
        TEST(test_tls),
        TEST(test_other_collector),
        TEST(test_stop_under_load),
        TEST(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
