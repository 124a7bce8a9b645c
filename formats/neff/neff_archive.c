/* Members from the archive bytes. The archive's own sizes bound reading; they never size an allocation. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/neff/neff_inflate.h"
#include "formats/neff/neff_internal.h"
#include "formats/neff/neff_path.h"

#define TAR_MAGIC_AT 0x101
#define TAR_MAGIC "ustar"
#define TAR_MAGIC_SIZE 5
#define IGNORED_SUFFIX "wavegraph-bin.json"

/* Deflate reaches a thousandfold; honest packages stay far below this (G). Small files may always grow to the floor. */
#define EXPANSION_FLOOR (256ull << 20)
#define EXPANSION_RATIO 256

struct source {
    const uint8_t *data; /* plain tar */
    size_t n;
    struct neff_inflate *gzip; /* else NULL */
    bool owned, given, looked, magic;
    int failed; /* of the gzip stream */
};

struct reader {
    struct neff_load *l;
    struct source src;
    struct archive *a;
    size_t member_cap, owned_cap;
    size_t entries;
    uint64_t total;
    const char *wanted; /* this member alone; NULL: all */
    struct neff_member found;
};

static bool has_magic(const uint8_t *data, size_t n)
{
    return n >= TAR_MAGIC_AT + TAR_MAGIC_SIZE && !memcmp(data + TAR_MAGIC_AT, TAR_MAGIC, TAR_MAGIC_SIZE);
}

static la_ssize_t read_source(struct archive *a, void *ctx, const void **ret)
{
    struct source *s = ctx;
    const uint8_t *data = s->data;
    size_t n = s->given ? 0 : s->n;
    s->given = true;
    if (s->gzip) {
        s->failed = neff_inflate_next(s->gzip, &data, &n);
        if (s->failed < 0) {
            archive_set_error(a, EIO, "the gzip stream ends early or is damaged");
            return -1;
        }
    }
    if (!s->looked) {
        s->looked = true;
        s->magic = has_magic(data, n);
    }
    *ret = data;
    return (la_ssize_t)n;
}

/* The gzip stream is checked to its end whatever the tar inside looks like: damage there explains the rest. */
static void drain(struct source *s)
{
    const uint8_t *data;
    size_t n = 1;
    while (s->gzip && s->failed == 0 && n > 0)
        s->failed = neff_inflate_next(s->gzip, &data, &n);
}

static int refuse_gzip(struct neff_load *l, int failed)
{
    if (failed == -EFBIG)
        return neff_refuse(l, NEFF_ERROR_LIMIT, -EFBIG, "the gzip stream expands beyond all measure");
    return neff_refuse(l, NEFF_ERROR_GZIP_DAMAGED, -EPROTO,
                       "the gzip stream ends early, or its contents or checksum are wrong");
}

static int refuse_tar(struct reader *r, const char *member)
{
    const char *text = archive_error_string(r->a);
    if (archive_errno(r->a) == ENOMEM)
        return neff_no_memory(r->l);
    drain(&r->src);
    if (r->src.failed < 0)
        return refuse_gzip(r->l, r->src.failed);
    if (!r->src.magic)
        return neff_refuse(r->l, NEFF_ERROR_NOT_AN_ARCHIVE, -EPROTO, "the gzip stream holds no tar");
    if (member)
        return neff_refuse(r->l, NEFF_ERROR_TAR_DAMAGED, -EPROTO, "member \"%s\": %s", member, text ? text : "damaged");
    return neff_refuse(r->l, NEFF_ERROR_TAR_DAMAGED, -EPROTO, "after %zu archive entries: %s", r->entries,
                       text ? text : "damaged");
}

struct growing {
    uint8_t *data;
    size_t len, cap;
};

static int take_block(struct reader *r, const char *name, struct growing *g, const void *block, size_t n,
                      la_int64_t offset)
{
    if (offset < 0 || (uint64_t)offset != g->len)
        return neff_refuse(r->l, NEFF_ERROR_TAR_DAMAGED, -EPROTO, "member \"%s\": it has holes", name);
    if (n > NEFF_MEMBER_MAX - g->len)
        return neff_refuse(r->l, NEFF_ERROR_MEMBER_TOO_LARGE, -EFBIG, "member \"%s\": more than %llu bytes", name,
                           NEFF_MEMBER_MAX);
    void *p = g->data;
    int e = kymo_grow(&p, &g->cap, g->len + n, NEFF_MEMBER_MAX, 1);
    if (e < 0)
        return neff_no_memory(r->l);
    g->data = p;
    memcpy(g->data + g->len, block, n);
    g->len += n;
    return 0;
}

/* A member of a plain tar arrives as one block inside our own bytes: it is referred to, not copied. */
static bool lies_in_file(const struct source *s, const void *block, size_t n)
{
    uintptr_t p = (uintptr_t)block, base = (uintptr_t)s->data;
    return s->owned && !s->gzip && p >= base && p - base <= s->n && n <= s->n - (p - base);
}

static int read_data(struct reader *r, const char *name, la_int64_t size, struct neff_member *m, bool *owned)
{
    struct growing g = {0};
    const void *block;
    size_t n;
    la_int64_t offset;
    int e = 0, got = ARCHIVE_OK;
    while (e == 0 && (got = archive_read_data_block(r->a, &block, &n, &offset)) == ARCHIVE_OK) {
        if (n == 0)
            continue;
        if (!g.data && (la_int64_t)n == size && lies_in_file(&r->src, block, n)) {
            *m = (struct neff_member){name, block, n};
            *owned = false;
            return 0;
        }
        e = take_block(r, name, &g, block, n, offset);
    }
    if (e == 0 && got != ARCHIVE_EOF)
        e = refuse_tar(r, name);
    if (e == 0 && (la_int64_t)g.len != size)
        e = neff_refuse(r->l, NEFF_ERROR_TAR_DAMAGED, -EPROTO, "member \"%s\": it declares %lld bytes and holds %zu",
                        name, (long long)size, g.len);
    if (e < 0) {
        kymo_free(g.data);
        return e;
    }
    /* Memory follows the contents; half of it idle in every member would be a copy more. */
    void *fit = g.data && g.cap - g.len > g.len / 8 ? kymo_realloc_array(g.data, g.len, 1) : NULL;
    *m = (struct neff_member){name, fit ? fit : g.data, g.len};
    *owned = g.data != NULL;
    return 0;
}

static int room_for_member(struct reader *r)
{
    struct neff *n = r->l->n;
    void *p = n->members;
    int e = kymo_grow(&p, &r->member_cap, n->member_count + 1, NEFF_MEMBERS_MAX, sizeof *n->members);
    n->members = p;
    if (e < 0)
        return neff_no_memory(r->l);
    p = n->member_owned;
    e = kymo_grow(&p, &r->owned_cap, n->member_count + 1, NEFF_MEMBERS_MAX, sizeof *n->member_owned);
    n->member_owned = p;
    return e < 0 ? neff_no_memory(r->l) : 0;
}

static bool is_ignored(const char *name)
{
    size_t n = strlen(name), s = strlen(IGNORED_SUFFIX);
    return n >= s && !strcmp(name + n - s, IGNORED_SUFFIX);
}

static int check_size(struct reader *r, const char *name, la_int64_t size)
{
    if (size < 0 || (uint64_t)size > NEFF_MEMBER_MAX)
        return neff_refuse(r->l, NEFF_ERROR_MEMBER_TOO_LARGE, -EFBIG,
                           "member \"%s\": a size of %lld bytes is more than %llu", name, (long long)size,
                           NEFF_MEMBER_MAX);
    if (!r->src.gzip && (uint64_t)size > r->src.n)
        return neff_refuse(r->l, NEFF_ERROR_MEMBER_TOO_LARGE, -EPROTO,
                           "member \"%s\": a size of %lld bytes is more than the whole archive", name, (long long)size);
    r->total += (uint64_t)size;
    if (r->total > NEFF_TOTAL_MAX)
        return neff_refuse(r->l, NEFF_ERROR_LIMIT, -EFBIG, "member \"%s\": all members together exceed %llu bytes",
                           name, NEFF_TOTAL_MAX);
    return 0;
}

/* The last of a name counts. */
static int read_wanted(struct reader *r, la_int64_t size)
{
    bool owned;
    kymo_free((void *)(uintptr_t)r->found.data);
    r->found = (struct neff_member){0};
    return read_data(r, r->wanted, size, &r->found, &owned);
}

static int read_entry(struct reader *r, struct archive_entry *e)
{
    const char *raw = archive_entry_pathname(e);
    if (!raw)
        raw = archive_entry_pathname_utf8(e);
    if (!raw)
        return neff_refuse(r->l, NEFF_ERROR_UNSAFE_PATH, -EPROTO, "archive entry %zu: its name cannot be read",
                           r->entries);
    const char *name = neff_path_strip(raw);
    bool directory = archive_entry_filetype(e) == AE_IFDIR;
    if (directory && (*name == '\0' || !strcmp(name, ".")))
        return 0;
    const char *why = neff_path_unsafe(name);
    if (why)
        return neff_refuse(r->l, NEFF_ERROR_UNSAFE_PATH, -EPROTO, "archive entry %zu, \"%.200s\": unsafe name, %s",
                           r->entries, name, why);
    if (directory || (r->wanted && strcmp(name, r->wanted) != 0))
        return 0;
    if (archive_entry_filetype(e) != AE_IFREG || archive_entry_hardlink(e)) {
        neff_add_note(r->l->n, "%s: is no regular file; left out", name);
        return 0;
    }
    la_int64_t size = archive_entry_size(e);
    if (r->wanted)
        return read_wanted(r, size);
    int res = check_size(r, name, size);
    if (res == 0 && is_ignored(name)) {
        neff_add_note(r->l->n, "%s: %lld bytes, left out as the runtime does", name, (long long)size);
        return 0;
    }
    if (res < 0)
        return res;
    res = room_for_member(r);
    if (res < 0)
        return res;
    struct neff *n = r->l->n;
    const char *kept = neff_intern(n, name);
    if (!kept)
        return neff_no_memory(r->l);
    bool left = r->src.gzip && (uint64_t)size > NEFF_HELD_MAX;
    r->l->left |= left;
    n->members[n->member_count] = (struct neff_member){kept, NULL, (size_t)size};
    n->member_owned[n->member_count] = false;
    if (!left)
        res = read_data(r, kept, size, &n->members[n->member_count], &n->member_owned[n->member_count]);
    if (res == 0)
        n->member_count++;
    return res;
}

static int read_entries(struct reader *r)
{
    struct archive_entry *e;
    for (;;) {
        int got = archive_read_next_header(r->a, &e);
        if (got == ARCHIVE_EOF)
            return 0;
        if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
            return refuse_tar(r, NULL);
        if (++r->entries > NEFF_MEMBERS_MAX)
            return neff_refuse(r->l, NEFF_ERROR_LIMIT, -E2BIG, "more than %d archive entries", NEFF_MEMBERS_MAX);
        int res = read_entry(r, e);
        if (res < 0)
            return res;
    }
}

static int open_and_read(struct reader *r)
{
    r->a = archive_read_new();
    if (!r->a)
        return neff_no_memory(r->l);
    int e;
    if (archive_read_support_format_tar(r->a) != ARCHIVE_OK)
        e = neff_no_memory(r->l);
    else if (archive_read_open(r->a, &r->src, NULL, read_source, NULL) != ARCHIVE_OK)
        e = refuse_tar(r, NULL);
    else
        e = read_entries(r);
    (void)archive_read_free(r->a);
    return e;
}

struct slot {
    struct neff_member member;
    bool owned;
    size_t order;
};

static int by_name_and_order(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;
    int c = strcmp(x->member.name, y->member.name);
    return c ? c : x->order < y->order ? -1 : 1;
}

/* A name that comes twice is what its last occurrence says, as in every tar. */
static int sort_members(struct neff_load *l)
{
    struct neff *n = l->n;
    struct slot *slots KYMO_FREE = KYMO_NEW_ARRAY(struct slot, n->member_count);
    if (!slots)
        return neff_no_memory(l);
    for (size_t i = 0; i < n->member_count; i++)
        slots[i] = (struct slot){n->members[i], n->member_owned[i], i};
    qsort(slots, n->member_count, sizeof *slots, by_name_and_order);
    size_t kept = 0;
    for (size_t i = 0; i < n->member_count; i++) {
        if (i + 1 < n->member_count && slots[i].member.name == slots[i + 1].member.name) {
            neff_add_note(n, "%s: is in the archive more than once; the last one counts", slots[i].member.name);
            if (slots[i].owned)
                kymo_free((void *)(uintptr_t)slots[i].member.data);
            continue;
        }
        n->members[kept] = slots[i].member;
        n->member_owned[kept++] = slots[i].owned;
    }
    n->member_count = kept;
    return 0;
}

static int open_gzip(struct source *s)
{
    uint64_t max = s->n < NEFF_TOTAL_MAX / EXPANSION_RATIO ? (uint64_t)s->n * EXPANSION_RATIO : NEFF_TOTAL_MAX;
    s->gzip = neff_inflate_new(s->data, s->n, max > EXPANSION_FLOOR ? max : EXPANSION_FLOOR);
    return s->gzip ? 0 : -ENOMEM;
}

int neff_archive_hold(struct neff_load *l, const struct neff_member *m)
{
    struct reader r = {.l = l, .src = {.data = l->archive, .n = l->archive_size}, .wanted = m->name};
    size_t i = (size_t)(m - l->n->members);
    if (m->data || !m->size)
        return 0;
    if (open_gzip(&r.src) < 0)
        return neff_no_memory(l);
    int e = open_and_read(&r);
    r.src.gzip = neff_inflate_free(r.src.gzip);
    if (e == 0 && r.found.size != m->size)
        e = neff_refuse(l, NEFF_ERROR_TAR_DAMAGED, -EPROTO, "member \"%s\": it cannot be read again", m->name);
    if (e < 0) {
        kymo_free((void *)(uintptr_t)r.found.data);
        return e;
    }
    l->n->members[i].data = r.found.data;
    l->n->member_owned[i] = true;
    return 0;
}

int neff_archive_load(struct neff_load *l, const uint8_t *data, size_t n, bool owned)
{
    struct reader r = {.l = l, .src = {.data = data, .n = n, .owned = owned}};
    l->n->gzip = n >= 2 && data[0] == 0x1F && data[1] == 0x8B;
    if (!l->n->gzip && !has_magic(data, n))
        return neff_refuse(l, NEFF_ERROR_NOT_AN_ARCHIVE, -EPROTO, "offset %d: the data is neither gzip nor tar",
                           NEFF_HEADER_SIZE);
    if (l->n->gzip && open_gzip(&r.src) < 0)
        return neff_no_memory(l);
    l->archive = data;
    l->archive_size = n;
    int e = open_and_read(&r);
    if (e == 0) {
        drain(&r.src);
        if (r.src.failed < 0)
            e = refuse_gzip(l, r.src.failed);
        else if (r.src.gzip && neff_inflate_trailing(r.src.gzip) > 0)
            neff_add_note(l->n, "%zu bytes behind the gzip stream are not part of it",
                          neff_inflate_trailing(r.src.gzip));
    }
    r.src.gzip = neff_inflate_free(r.src.gzip);
    return e < 0 ? e : sort_members(l);
}

void neff_archive_free(struct neff *n)
{
    for (size_t i = 0; i < n->member_count; i++)
        if (n->member_owned[i])
            kymo_free((void *)(uintptr_t)n->members[i].data);
    kymo_free(n->members);
    kymo_free(n->member_owned);
}
