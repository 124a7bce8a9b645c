/*
 * The two ends of the spool's kill test (spool.sh).
 *
 * spool_child run SPOOL INTAKE LOG SEED: captures, reads, acknowledges and delivers for ever, and appends to LOG what
 * the spool promised, each line after the promise and before anything else. It is killed from outside at any moment.
 *
 * spool_child check SPOOL LOG: holds the spool against all promises of all runs. Exit code 1 and a line when one is
 * broken.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/spool/spool.h"

#define CONTENT_MAX 65536
#define CAPTURES_MAX 1000000
#define ROUNDS_MAX 100000 /* of one run, so that it ends by itself */

static const struct spool_limits limits = {
    .policy = SPOOL_DROP_OLDEST,
    .bytes_max = 1000000,
    .capture_bytes_max = 300000,
    .captures_max = 12,
    .neff_bytes_max = 100000,
    .neffs_max = 4,
    .reserve_bytes = 65536,
    .segment_bytes = 4096,
    .loss_rows_max = 16,
};

static uint64_t chance;

static uint64_t draw(uint64_t below)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance % below;
}

/* Content and size follow from number and file, so that a check needs no copy. */
static size_t content(uint64_t number, size_t file, uint8_t *out)
{
    uint64_t x = number * 2654435761u + file * 97 + 1;
    size_t n = 100 + (size_t)(x % (file == 2 ? 400 : 60000));
    for (size_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        out[i] = (uint8_t)(x >> 56);
    }
    return n;
}

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "spool_child: %s: %s\n", what, strerror(errno));
    exit(3);
}

static void promise(int log, const char *verb, uint64_t number, uint64_t a, uint64_t b)
{
    char line[128];
    int n = snprintf(line, sizeof line, "%s %llu %llu %llu\n", verb, (unsigned long long)number, (unsigned long long)a,
                     (unsigned long long)b);
    must(write(log, line, (size_t)n) == n, "log");
}

static void write_file(const char *path, const uint8_t *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, data, n) == (ssize_t)n, path);
    (void)close(fd);
}

static void capture(struct spool *s, const char *intake, int log, uint64_t number)
{
    static uint8_t data[CONTENT_MAX];
    struct spool_capture *c;
    struct kymo_err err = {0};
    char id[32], path[512];
    uint64_t seq;
    (void)snprintf(id, sizeof id, "c%llu", (unsigned long long)number);
    promise(log, "begin", number, 0, 0);
    must(spool_begin(s, id, &c, &err) == 0, err.text);
    for (size_t f = 0; f < 2; f++) {
        (void)snprintf(path, sizeof path, "%s/%zu", intake, f);
        write_file(path, data, content(number, f, data));
        must(spool_take(c, path, f ? "b" : "a", f ? SPOOL_COPY : SPOOL_RENAME, NULL, &err) == 0, err.text);
    }
    if (draw(10) == 0) {
        must(spool_drop(c, 0, &err) == 0, err.text);
        return;
    }
    size_t n = content(number, 2, data);
    promise(log, "publishing", number, 0, 0);
    must(spool_publish(c, data, n, &seq, &err) == 0, err.text);
    promise(log, "published", number, seq, 0);
}

static void deliver(struct spool *s, int log, bool all)
{
    const struct spool_entry *e = spool_next(s, 0);
    if (!e)
        return;
    uint64_t seq = e->seq, number = strtoull(e->id + 1, NULL, 10);
    for (size_t f = 0; f < 3; f++) {
        const struct spool_file *file = &spool_find(s, seq)->files[f];
        uint64_t to = all ? file->size : file->acked + draw(file->size - file->acked + 1);
        promise(log, "acking", number, f, to);
        must(spool_ack(s, seq, f, to, NULL) == 0, "ack");
        promise(log, "acked", number, f, to);
    }
    if (!all)
        return;
    promise(log, "delivering", number, 0, 0);
    must(spool_done(s, seq, NULL) == 0, "done");
    promise(log, "delivered", number, 0, 0);
}

static int run(const char *dir, const char *intake, const char *log_path, const char *seed)
{
    struct spool *s;
    struct kymo_err err = {0};
    char path[512];
    chance = (strtoull(seed, NULL, 10) + 1) * 0x9e3779b97f4a7c15u;
    uint64_t number = (strtoull(seed, NULL, 10) + 1) * CAPTURES_MAX;
    int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    must(log >= 0, log_path);
    must(spool_open(dir, &limits, &s, &err) == 0, err.text);
    promise(log, "opened", 0, 0, 0);
    static uint8_t neff[CONTENT_MAX];
    for (long round = 0; round < ROUNDS_MAX; round++) {
        capture(s, intake, log, number++);
        if (draw(3) == 0)
            deliver(s, log, draw(3) > 0);
        if (draw(8) == 0) {
            uint8_t sha[KYMO_SHA256_SIZE];
            (void)snprintf(path, sizeof path, "%s/neff", intake);
            write_file(path, neff, content(draw(8), 0, neff));
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            must(fd >= 0 && spool_add_neff(s, fd, path, sha, &err) == 0, err.text);
            (void)close(fd);
        }
        struct spool_loss row;
        if (draw(16) == 0 && spool_losses(s, &row, 1) == 1) {
            promise(log, "reporting", 0, row.captures, 0);
            must(spool_loss_reported(s, &row, &err) == 0, err.text);
            promise(log, "reported", 0, row.captures, 0);
        }
    }
    spool_close(s);
    return 0;
}

/* ---- check ---- */

struct known {
    uint64_t number, seq, acked[3], acking[3];
    bool publishing, published, delivering, delivered;
};

struct known_list {
    struct known *at;
    size_t n, cap;
    uint64_t reported, reporting;
};

static struct known *find(struct known_list *l, uint64_t number)
{
    for (size_t i = l->n; i-- > 0;)
        if (l->at[i].number == number)
            return &l->at[i];
    return NULL;
}

static void learn(struct known_list *l, const char *verb, uint64_t number, uint64_t a, uint64_t b)
{
    struct known *k = find(l, number);
    if (!strcmp(verb, "begin")) {
        must(kymo_grow((void **)&l->at, &l->cap, l->n + 1, CAPTURES_MAX, sizeof *l->at) == 0, "memory");
        l->at[l->n++] = (struct known){.number = number};
    } else if (!strcmp(verb, "reporting")) {
        l->reporting += a;
    } else if (!strcmp(verb, "reported")) {
        l->reported += a;
    } else if (k) {
        k->publishing |= !strcmp(verb, "publishing");
        k->published |= !strcmp(verb, "published");
        k->delivering |= !strcmp(verb, "delivering");
        k->delivered |= !strcmp(verb, "delivered");
        if (!strcmp(verb, "published"))
            k->seq = a;
        if (!strcmp(verb, "acking") && a < 3)
            k->acking[a] = b;
        if (!strcmp(verb, "acked") && a < 3)
            k->acked[a] = b;
    }
}

static void read_log(struct known_list *l, const char *path)
{
    char line[128], verb[16];
    unsigned long long number, a, b;
    FILE *f = fopen(path, "re");
    must(f != NULL, path);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%15s %llu %llu %llu", verb, &number, &a, &b) == 4)
            learn(l, verb, number, a, b);
    (void)fclose(f);
}

static int broken(const char *what, uint64_t number)
{
    printf("BROKEN: capture %llu: %s\n", (unsigned long long)number, what);
    return 1;
}

static int check_entry(struct spool *s, const struct spool_entry *e, struct known_list *l)
{
    static uint8_t want[CONTENT_MAX], got[CONTENT_MAX];
    uint64_t number = strtoull(e->id + 1, NULL, 10);
    const struct known *k = find(l, number);
    if (!k || !k->publishing)
        return broken("pending though never published", number);
    if (k->delivered)
        return broken("pending though delivered", number);
    if (e->nfiles != 3)
        return broken("not whole", number);
    for (size_t f = 0; f < 3; f++) {
        size_t at = f == 2 ? 2 : e->files[f].name[0] == 'b', have;
        size_t n = content(number, at, want);
        if (spool_read(s, e->seq, f, 0, got, sizeof got, &have, NULL) < 0 || have != n || memcmp(want, got, n) != 0)
            return broken("not the bytes that were published", number);
        /* A capture taken in again after a crash begins at offset 0; it was never acknowledged. */
        if (e->files[f].acked < k->acked[f] || e->files[f].acked > k->acking[f])
            return broken("an acknowledgement is lost or invented", number);
    }
    return 0;
}

static bool is_pending(const struct spool *s, uint64_t number)
{
    for (const struct spool_entry *e = spool_next(s, 0); e; e = spool_next(s, e->seq))
        if (strtoull(e->id + 1, NULL, 10) == number)
            return true;
    return false;
}

static int check_totals(const struct spool *s, const struct known_list *l)
{
    struct spool_status st;
    struct spool_loss rows[64];
    spool_get_status(s, &st);
    if (st.account_open || st.issued.captures != st.pending.captures + st.delivered.captures + st.lost.captures ||
        st.issued.bytes != st.pending.bytes + st.delivered.bytes + st.lost.bytes)
        return broken("the account does not close", 0);
    uint64_t sure = 0, maybe = 0, in_rows = 0, gone = 0;
    for (size_t i = 0; i < l->n; i++) {
        sure += l->at[i].delivered;
        maybe += l->at[i].delivering;
        gone += l->at[i].published && !l->at[i].delivering && !is_pending(s, l->at[i].number);
    }
    size_t n = spool_losses(s, rows, 64);
    for (size_t i = 0; i < n; i++)
        in_rows += rows[i].captures;
    if (st.delivered.captures < sure || st.delivered.captures > maybe)
        return broken("deliveries are lost or counted twice", 0);
    if (in_rows + l->reported > st.lost.captures || in_rows + l->reporting < st.lost.captures)
        return broken("loss rows do not add up", 0);
    if (gone > st.lost.captures || st.issued.captures > l->n)
        return broken("captures are gone without a loss, or counted twice", 0);
    printf("begun %zu, issued %llu, pending %llu, delivered %llu, lost %llu, taken in again %llu\n", l->n,
           (unsigned long long)st.issued.captures, (unsigned long long)st.pending.captures,
           (unsigned long long)st.delivered.captures, (unsigned long long)st.lost.captures,
           (unsigned long long)st.recovered_captures);
    return 0;
}

static int check(const char *dir, const char *log_path)
{
    struct known_list l = {0};
    struct spool *s;
    struct kymo_err err = {0};
    read_log(&l, log_path);
    if (spool_open(dir, &limits, &s, &err) < 0) {
        printf("BROKEN: %s\n", err.text);
        return 1;
    }
    int r = 0;
    for (const struct spool_entry *e = spool_next(s, 0); r == 0 && e; e = spool_next(s, e->seq))
        r = check_entry(s, e, &l);
    if (r == 0)
        r = check_totals(s, &l);
    spool_close(s);
    kymo_free(l.at);
    return r;
}

int main(int argc, char **argv)
{
    if (argc == 6 && !strcmp(argv[1], "run"))
        return run(argv[2], argv[3], argv[4], argv[5]);
    if (argc == 4 && !strcmp(argv[1], "check"))
        return check(argv[2], argv[3]);
    (void)fprintf(stderr, "usage: spool_child run SPOOL INTAKE LOG SEED | check SPOOL LOG\n");
    return 2;
}
