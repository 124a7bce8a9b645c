/*
 * Aligns an image with the compiler's stream by contents: records that occur once in both are anchors, the longest
 * rising chain of anchors is kept, and equal records are followed from each anchor in both directions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/le.h"
#include "pipeline/instructions/program.h"

struct hashed {
    uint64_t hash;
    uint32_t at;
};

static uint64_t hash_record(const uint8_t *rec)
{
    uint64_t h = 0x9e3779b97f4a7c15ull;
    for (size_t i = 0; i < KYMO_INSTR_SIZE; i += 8) {
        h ^= kymo_le64(rec + i);
        h *= 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    return h;
}

static int by_hash(const void *a, const void *b)
{
    const struct hashed *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int by_at(const void *a, const void *b)
{
    const struct hashed *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Sorted by hash; only records that occur once remain. */
static size_t unique_records(const uint8_t *code, size_t n, struct hashed *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (struct hashed){hash_record(code + i * KYMO_INSTR_SIZE), (uint32_t)i};
    qsort(out, n, sizeof *out, by_hash);
    size_t kept = 0;
    for (size_t i = 0; i < n;) {
        size_t j = i + 1;
        while (j < n && out[j].hash == out[i].hash)
            j++;
        if (j == i + 1)
            out[kept++] = out[i];
        i = j;
    }
    return kept;
}

/* Pairs in order of image slot: .at is the slot, .hash becomes the compiler's index. */
static size_t anchors(struct hashed *a, size_t na, const struct hashed *b, size_t nb)
{
    size_t n = 0;
    for (size_t i = 0, j = 0; i < na && j < nb;) {
        if (a[i].hash < b[j].hash) {
            i++;
        } else if (a[i].hash > b[j].hash) {
            j++;
        } else {
            a[n++] = (struct hashed){b[j].at, a[i].at};
            i++;
            j++;
        }
    }
    qsort(a, n, sizeof *a, by_at);
    return n;
}

/* Longest chain of anchors whose compiler indexes rise; marks them in compiler_pc. */
static void keep_chain(const struct hashed *a, size_t n, uint32_t *best, uint32_t *previous, int32_t *compiler_pc)
{
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        size_t lo = 0, hi = length;
        while (lo < hi) {
            size_t mid = (lo + hi) / 2;
            if (a[best[mid]].hash < a[i].hash)
                lo = mid + 1;
            else
                hi = mid;
        }
        previous[i] = lo ? best[lo - 1] : UINT32_MAX;
        best[lo] = (uint32_t)i;
        if (lo == length)
            length++;
    }
    for (uint32_t i = length ? best[length - 1] : UINT32_MAX; i != UINT32_MAX; i = previous[i])
        compiler_pc[a[i].at] = (int32_t)a[i].hash;
}

static bool same(const uint8_t *image, size_t slot, const uint8_t *code, size_t at)
{
    return !memcmp(image + slot * KYMO_INSTR_SIZE, code + at * KYMO_INSTR_SIZE, KYMO_INSTR_SIZE);
}

static void follow(const uint8_t *image, size_t slots, const uint8_t *code, size_t count, int32_t *compiler_pc)
{
    for (size_t slot = 1; slot < slots; slot++) {
        size_t next = (size_t)compiler_pc[slot - 1] + 1;
        if (compiler_pc[slot] < 0 && compiler_pc[slot - 1] >= 0 && next < count && same(image, slot, code, next))
            compiler_pc[slot] = (int32_t)next;
    }
    for (size_t slot = slots; slot-- > 1;) {
        int32_t next = compiler_pc[slot];
        if (compiler_pc[slot - 1] < 0 && next > 0 && same(image, slot - 1, code, (size_t)next - 1))
            compiler_pc[slot - 1] = next - 1;
    }
}

int program_align(const uint8_t *image, size_t slots, const uint8_t *code, size_t count, int32_t *compiler_pc,
                  struct kymo_err *err)
{
    struct hashed *a KYMO_FREE = KYMO_NEW_ARRAY(struct hashed, slots + 1);
    struct hashed *b KYMO_FREE = KYMO_NEW_ARRAY(struct hashed, count + 1);
    uint32_t *best KYMO_FREE = KYMO_NEW_ARRAY(uint32_t, slots + 1);
    uint32_t *previous KYMO_FREE = KYMO_NEW_ARRAY(uint32_t, slots + 1);
    if (!a || !b || !best || !previous)
        return kymo_err_set(err, -ENOMEM, "no memory to align %zu with %zu records", slots, count);
    for (size_t i = 0; i < slots; i++)
        compiler_pc[i] = -1;
    size_t na = unique_records(image, slots, a), nb = unique_records(code, count, b);
    size_t n = anchors(a, na, b, nb);
    keep_chain(a, n, best, previous, compiler_pc);
    follow(image, slots, code, count, compiler_pc);
    return 0;
}
