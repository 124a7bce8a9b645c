/*
 * Recovery on arbitrary journal bytes: the input is a segment (and, a second time, the records of a segment whose
 * header and checksums are repaired). The spool must open, its records must be bounded, a second start must change
 * nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/le.h"
#include "daemon/spool/journal.h"
#include "daemon/spool/spool.h"
#include "daemon/spool/spool_check.h"

#define INPUT_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char top[64], dir[80];

static void must(int holds)
{
    if (!holds)
        abort();
}

static void remove_top(void)
{
    if (kymo_file_remove_tree(top, NULL) < 0)
        abort();
}

static void make_top(void)
{
    (void)snprintf(top, sizeof top, "%s/kymo-fuzz-spool-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(top) != NULL);
    (void)snprintf(dir, sizeof dir, "%s/spool", top);
    must(atexit(remove_top) == 0);
}

static void put(const char *name, const void *data, size_t n)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    (void)close(fd);
}

static void ignore_line(void *ctx, const char *text)
{
    must(text[0] != 0);
    (void)ctx;
}

static void open_once(struct spool_status *st)
{
    static const struct spool_limits limits = {.bytes_max = INT64_MAX / 2,
                                               .capture_bytes_max = 1u << 20,
                                               .captures_max = 64,
                                               .neff_bytes_max = 1u << 20,
                                               .neffs_max = 8,
                                               .segment_bytes = 4096,
                                               .loss_rows_max = 16};
    struct spool *s = NULL;
    struct kymo_err err = {0};
    int r = spool_open(dir, &limits, &s, &err);
    if (r == -EPROTO) {
        *st = (struct spool_status){.account_open = true};
        return;
    }
    must(r == 0);
    spool_get_status(s, st);
    must(st->account_open ||
         (st->issued.captures == st->pending.captures + st->delivered.captures + st->lost.captures &&
          st->issued.bytes == st->pending.bytes + st->delivered.bytes + st->lost.bytes));
    for (const struct spool_entry *e = spool_next(s, 0); e; e = spool_next(s, e->seq))
        must(e->nfiles > 0 && e->nfiles <= SPOOL_FILES_MAX);
    spool_close(s);
}

static void recover(const uint8_t *data, size_t size)
{
    struct spool_check_result found;
    struct spool_status first, second;
    must(kymo_file_remove_tree(dir, NULL) == 0);
    must(mkdir(dir, 0700) == 0);
    char sub[160];
    static const char *const subs[] = {"journal", "captures", "captures/cap-1", "staging", "neff"};
    for (size_t i = 0; i < sizeof subs / sizeof *subs; i++) {
        (void)snprintf(sub, sizeof sub, "%s/%s", dir, subs[i]);
        must(mkdir(sub, 0700) == 0);
    }
    put("captures/cap-1/manifest.pb", "m", 1);
    put("journal/0000000000000005.seg", data, size);
    must(spool_check(dir, true, ignore_line, NULL, &found, NULL) <= 0);
    must(spool_dump(dir, ignore_line, NULL, NULL) <= 0);
    open_once(&first);
    open_once(&second);
    must(first.account_open == second.account_open && first.issued.captures == second.issued.captures &&
         first.pending.captures == second.pending.captures && first.lost.bytes == second.lost.bytes);
}

/* The input's records, one after the other, with lengths cut to what is there, ids in order and checksums that hold. */
static void recover_repaired(const uint8_t *data, size_t size)
{
    static uint8_t out[2 * INPUT_MAX];
    size_t at = JOURNAL_HEADER_SIZE, to = JOURNAL_HEADER_SIZE;
    uint64_t id = 1;
    memset(out, 0, JOURNAL_HEADER_SIZE);
    memcpy(out, "KYMOSPOL", 8);
    kymo_put_le32(out + 8, 1);
    kymo_put_le32(out + 12, JOURNAL_HEADER_SIZE);
    kymo_put_le64(out + 16, 5);
    kymo_put_le64(out + 24, 1);
    kymo_put_le32(out + 36, kymo_crc32c(0, out, 36));
    while (size - at >= JOURNAL_RECORD_HEADER_SIZE && to + JOURNAL_RECORD_MAX < sizeof out) {
        size_t left = size - at - JOURNAL_RECORD_HEADER_SIZE;
        size_t len = kymo_le32(data + at + 4);
        len = len > left ? left : len;
        len = len > JOURNAL_PAYLOAD_MAX ? JOURNAL_PAYLOAD_MAX : len;
        size_t total = JOURNAL_RECORD_HEADER_SIZE + ((len + 7) & ~(size_t)7);
        memset(out + to, 0, total);
        memcpy(out + to, data + at, JOURNAL_RECORD_HEADER_SIZE + len);
        memcpy(out + to, "KSJ1", 4);
        kymo_put_le32(out + to + 4, (uint32_t)len);
        kymo_put_le64(out + to + 8, id++);
        kymo_put_le16(out + to + 26, 0);
        kymo_put_le32(out + to + 28,
                      kymo_crc32c(kymo_crc32c(0, out + to, 28), out + to + JOURNAL_RECORD_HEADER_SIZE, len));
        to += total;
        at += total < size - at ? total : size - at;
    }
    recover(out, to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > INPUT_MAX)
        return 0;
    if (!top[0])
        make_top();
    recover(data, size);
    if (size > JOURNAL_HEADER_SIZE)
        recover_repaired(data, size);
    return 0;
}
