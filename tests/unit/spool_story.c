#include "tests/unit/spool_story.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define CONTENT_MAX 8192

const struct spool_limits story_limits = {
    .policy = SPOOL_DROP_OLDEST,
    .bytes_max = 60000,
    .capture_bytes_max = 15000,
    .captures_max = 5,
    .neff_bytes_max = 10000,
    .neffs_max = 4,
    .reserve_bytes = 4096,
    .segment_bytes = 1500,
    .loss_rows_max = 8,
};

size_t story_content(size_t capture, size_t file, uint8_t *out)
{
    uint32_t x = (uint32_t)(capture * 31 + file * 7 + 1);
    size_t n = file == 2 ? 60 + capture : 300 + (capture * 977 + file * 1201) % 4000;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        out[i] = (uint8_t)(x >> 24);
    }
    return n;
}

static void make_file(const char *path, size_t capture, size_t file)
{
    uint8_t data[CONTENT_MAX];
    size_t n = story_content(capture, file, data);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n)
        abort();
    (void)close(fd);
}

static void add_neff(struct story *st, struct spool *s, const char *intake)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/neff", intake);
    make_file(path, 99, 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (spool_add_neff(s, fd, path, st->neff, NULL) == 0)
        st->has_neff = true;
    (void)close(fd);
}

static void capture(struct story *st, struct spool *s, const char *intake, size_t i)
{
    struct story_capture *sc = &st->captures[i];
    struct spool_capture *c;
    uint8_t manifest[CONTENT_MAX];
    char id[32], path[512];
    (void)snprintf(id, sizeof id, "cap-%zu", i);
    if (spool_begin(s, id, &c, NULL) < 0)
        return;
    int r = 0;
    for (size_t f = 0; f < 2 && r == 0; f++) {
        (void)snprintf(path, sizeof path, "%s/%s-%zu", intake, id, f);
        make_file(path, i, f);
        r = spool_take(c, path, f ? "b.ntff" : "a.ntff", f ? SPOOL_COPY : SPOOL_RENAME, NULL, NULL);
    }
    if (r == 0 && st->has_neff)
        r = spool_refer_neff(c, st->neff, NULL);
    /* One is given up by its owner. */
    if (r < 0 || i == 4) {
        sc->dropped = true;
        (void)spool_drop(c, 0, NULL);
        return;
    }
    size_t n = story_content(i, 2, manifest);
    sc->tried = true;
    r = spool_publish(c, manifest, n, &sc->seq, NULL);
    if (r < 0)
        r = spool_publish(c, manifest, n, &sc->seq, NULL);
    if (r < 0) {
        sc->dropped = true;
        (void)spool_drop(c, 0, NULL);
        return;
    }
    sc->published = true;
}

static void ack(struct story *st, struct spool *s, size_t i, size_t file, uint64_t offset)
{
    struct story_capture *sc = &st->captures[i];
    if (!sc->published || !spool_find(s, sc->seq))
        return;
    sc->acked_tried[file] = offset;
    if (spool_ack(s, sc->seq, file, offset, NULL) == 0)
        sc->acked[file] = offset;
}

static void deliver(struct story *st, struct spool *s, size_t i)
{
    uint8_t data[CONTENT_MAX];
    struct story_capture *sc = &st->captures[i];
    for (size_t f = 0; f < STORY_FILES; f++)
        ack(st, s, i, f, story_content(i, f, data));
    if (!sc->published || !spool_find(s, sc->seq))
        return;
    sc->done_tried = true;
    sc->done = spool_done(s, sc->seq, NULL) == 0;
}

static void report(struct story *st, struct spool *s)
{
    struct spool_loss row;
    if (spool_losses(s, &row, 1) == 0)
        return;
    st->reported_tried += row.captures;
    if (spool_loss_reported(s, &row, NULL) == 0)
        st->reported += row.captures;
}

/* One failure is injected at a time: what fails once must work the next time. */
static bool open_or_retry(const char *dir, struct spool **s)
{
    if (spool_open(dir, &story_limits, s, NULL) == 0)
        return true;
    return spool_open(dir, &story_limits, s, NULL) == 0;
}

void story_run(struct story *st, const char *dir, const char *intake)
{
    struct spool *s KYMO_CLEANUP(spool_closep) = NULL;
    memset(st, 0, sizeof *st);
    if (!open_or_retry(dir, &s))
        return;
    add_neff(st, s, intake);
    add_neff(st, s, intake);
    for (size_t i = 0; i < 3; i++)
        capture(st, s, intake, i);
    ack(st, s, 0, 0, 100);
    ack(st, s, 0, 0, 200);
    deliver(st, s, 0);
    capture(st, s, intake, 3);
    capture(st, s, intake, 4);
    ack(st, s, 1, 1, 50);
    deliver(st, s, 2);
    for (size_t i = 5; i < 11; i++)
        capture(st, s, intake, i);
    report(st, s);
    s = spool_close(s);
    if (!open_or_retry(dir, &s))
        return;
    deliver(st, s, 8);
    for (size_t i = 11; i < STORY_CAPTURES; i++)
        capture(st, s, intake, i);
    ack(st, s, 12, 0, 77);
    deliver(st, s, 13);
}

static char message[1024];

#define FAIL(...)                                                                                                      \
    do {                                                                                                               \
        (void)snprintf(message, sizeof message, __VA_ARGS__);                                                          \
        return message;                                                                                                \
    } while (0)

static const char *check_entry(const struct story *st, struct spool *s, const struct spool_entry *e)
{
    size_t i;
    uint8_t want[CONTENT_MAX], got[CONTENT_MAX];
    if (sscanf(e->id, "cap-%zu", &i) != 1 || i >= STORY_CAPTURES)
        FAIL("a capture nobody made: %s", e->id);
    const struct story_capture *sc = &st->captures[i];
    if (!sc->tried)
        FAIL("%s is pending though it was never to be published", e->id);
    if (sc->done)
        FAIL("%s is pending though it was delivered", e->id);
    if (e->nfiles != STORY_FILES || strcmp(e->files[2].name, SPOOL_MANIFEST) != 0)
        FAIL("%s has %zu files", e->id, e->nfiles);
    for (size_t f = 0; f < STORY_FILES; f++) {
        size_t at = !strcmp(e->files[f].name, "b.ntff") ? 1 : f == 2 ? 2 : 0;
        size_t n = story_content(i, at, want), have;
        struct kymo_err err = {0};
        if (e->files[f].size != n || spool_read(s, e->seq, f, 0, got, sizeof got, &have, &err) < 0 || have != n ||
            memcmp(want, got, n) != 0)
            FAIL("%s: %s is not what was captured: %s", e->id, e->files[f].name, err.text);
        if (sc->published && (e->files[f].acked < sc->acked[at] || e->files[f].acked > sc->acked_tried[at]))
            FAIL("%s: %s is acknowledged to %llu", e->id, e->files[f].name, (unsigned long long)e->files[f].acked);
    }
    if (e->nneffs > 0) {
        uint64_t size;
        int fd = spool_open_neff(s, e->neffs[0], &size, NULL);
        if (fd < 0 || size != story_content(99, 0, want) || kymo_file_pread_all(fd, got, size, 0, "neff", NULL) < 0 ||
            memcmp(got, want, size) != 0)
            FAIL("%s: its NEFF is not there", e->id);
        (void)close(fd);
    }
    return NULL;
}

static bool in_a_row(const struct spool_loss *rows, size_t n, uint64_t seq)
{
    for (size_t i = 0; i < n; i++)
        if (seq >= rows[i].first_seq && seq <= rows[i].last_seq)
            return true;
    return false;
}

static const struct spool_entry *pending_with_id(const struct spool *s, size_t i)
{
    char id[32];
    (void)snprintf(id, sizeof id, "cap-%zu", i);
    for (const struct spool_entry *e = spool_next(s, 0); e; e = spool_next(s, e->seq))
        if (!strcmp(e->id, id))
            return e;
    return NULL;
}

static const char *check_account(const struct story *st, const struct spool *s, bool drained)
{
    struct spool_status status;
    struct spool_loss rows[32];
    spool_get_status(s, &status);
    if (status.account_open)
        FAIL("the account is open");
    if (status.issued.captures != status.pending.captures + status.delivered.captures + status.lost.captures ||
        status.issued.bytes != status.pending.bytes + status.delivered.bytes + status.lost.bytes)
        FAIL("the account does not close");
    size_t n = spool_losses(s, rows, 32);
    uint64_t in_rows = 0;
    for (size_t i = 0; i < n; i++)
        in_rows += rows[i].captures;
    if (in_rows + st->reported > status.lost.captures || in_rows + st->reported_tried < status.lost.captures)
        FAIL("%llu captures lost, %llu in rows, %llu reported", (unsigned long long)status.lost.captures,
             (unsigned long long)in_rows, (unsigned long long)st->reported);
    for (size_t i = 0; i < STORY_CAPTURES && !drained; i++) {
        const struct story_capture *sc = &st->captures[i];
        if (sc->published && !sc->done_tried && !pending_with_id(s, i) && !in_a_row(rows, n, sc->seq) &&
            st->reported_tried == 0)
            FAIL("cap-%zu was published and is neither pending nor in a loss row", i);
    }
    return NULL;
}

static const char *check_left_over(const char *dir)
{
    char path[512];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/staging", dir);
    if (stat(path, &st) < 0 || st.st_nlink != 2)
        FAIL("%s is not empty", path);
    return NULL;
}

enum pass { FIRST, DRAIN, DRAINED };

static const char *check_once(const struct story *st, const char *dir, struct spool_status *ret, enum pass pass)
{
    struct spool *s KYMO_CLEANUP(spool_closep) = NULL;
    struct kymo_err err = {0};
    const char *bad = NULL;
    if (spool_open(dir, &story_limits, &s, &err) < 0)
        FAIL("cannot open: %s", err.text);
    for (const struct spool_entry *e = spool_next(s, 0); !bad && e; e = spool_next(s, e->seq))
        bad = check_entry(st, s, e);
    if (!bad)
        bad = check_account(st, s, pass == DRAINED);
    if (!bad)
        bad = check_left_over(dir);
    if (bad)
        return bad;
    for (const struct spool_entry *e; pass == DRAIN && (e = spool_next(s, 0));) {
        uint64_t seq = e->seq;
        for (size_t f = 0; f < STORY_FILES; f++)
            if (spool_ack(s, seq, f, spool_find(s, seq)->files[f].size, &err) < 0)
                FAIL("cannot acknowledge: %s", err.text);
        if (spool_done(s, seq, &err) < 0)
            FAIL("cannot deliver: %s", err.text);
    }
    spool_get_status(s, ret);
    return NULL;
}

const char *story_check(const struct story *st, const char *dir)
{
    struct spool_status first, again, last;
    const char *bad = check_once(st, dir, &first, FIRST);
    if (!bad)
        bad = check_once(st, dir, &again, DRAIN);
    if (bad)
        return bad;
    if (again.issued.captures != first.issued.captures || again.lost.captures != first.lost.captures)
        FAIL("a second start changes what the first found");
    bad = check_once(st, dir, &last, DRAINED);
    if (bad)
        return bad;
    if (last.pending.captures != 0 || last.delivered.captures != again.delivered.captures)
        FAIL("what was delivered is not gone");
    return NULL;
}
