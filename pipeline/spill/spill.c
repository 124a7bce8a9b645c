#include "pipeline/spill/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

/* Whole and aligned in the file: the kernel holds such a page in one piece, which halves what it costs. */
#define PAGE_BYTES 65536u
#define PAGES 8u
#define READER_PARTS 4u /* of a page, which a reader holds one of */
#define RECORD_MAX 4096u

struct page {
    uint8_t *data;
    size_t filled; /* bytes at its start that are something; the rest is zero, but only once fill() is called */
    uint64_t number;
    bool used, dirty;
};

struct spill {
    int fd;
    char *path; /* for messages: the file has no name any more */
    size_t size, per_page;
    uint64_t count, written; /* written: pages up to the last in the file */
    bool revisited;          /* something else was done than appending */
    struct page pages[PAGES];
    struct page *near; /* the one used last, which holds records from near_first on; NULL: none */
    uint64_t near_first;
};

int spill_open(const char *dir, size_t size, struct spill **ret, struct kymo_err *err)
{
    if (!size || size > RECORD_MAX)
        return kymo_err_set(err, -EINVAL, "spill records of %zu bytes are not supported", size);
    struct spill *s = KYMO_NEW(struct spill);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "no memory for a spill file");
    s->fd = -1;
    s->size = size;
    s->per_page = PAGE_BYTES / size;
    static atomic_uint serial;
    s->path = kymo_asprintf("%s/.spill-%ld-%u", dir, (long)getpid(), serial++);
    if (!s->path) {
        spill_free(s);
        return kymo_err_set(err, -ENOMEM, "no memory for a spill file");
    }
    s->fd = kymo_file_open(s->path, O_RDWR | O_CREAT | O_EXCL, 0600, err);
    if (s->fd < 0) {
        int r = s->fd;
        spill_free(s);
        return r;
    }
    /* Without a name the file goes away with the process, however that ends. */
    (void)kymo_file_ops()->unlink(s->path);
    *ret = s;
    return 0;
}

struct spill *spill_free(struct spill *s)
{
    if (!s)
        return NULL;
    for (unsigned i = 0; i < PAGES; i++)
        kymo_free(s->pages[i].data);
    kymo_file_close(s->fd);
    kymo_free(s->path);
    kymo_free(s);
    return NULL;
}

uint64_t spill_count(const struct spill *s)
{
    return s->count;
}

static void fill(struct page *p, size_t to)
{
    if (p->filled < to) {
        memset(p->data + p->filled, 0, to - p->filled);
        p->filled = to;
    }
}

static int flush(struct spill *s, struct page *p, struct kymo_err *err)
{
    if (!p->used || !p->dirty)
        return 0;
    fill(p, PAGE_BYTES);
    int r = kymo_file_pwrite_all(s->fd, p->data, PAGE_BYTES, p->number * PAGE_BYTES, s->path, err);
    if (r == 0)
        p->dirty = false;
    if (r == 0 && p->number >= s->written)
        s->written = p->number + 1;
    return r;
}

static int load(struct spill *s, struct page *p, struct kymo_err *err)
{
    bool there = p->number < s->written;
    p->filled = there ? PAGE_BYTES : 0;
    return there ? kymo_file_pread_all(s->fd, p->data, PAGE_BYTES, p->number * PAGE_BYTES, s->path, err) : 0;
}

/* While all that was ever done is to append, one page is enough: the one that is full hands its memory on. */
static int get_memory(struct spill *s, struct page *p, struct kymo_err *err)
{
    struct page *full = p->number && !s->revisited ? &s->pages[(p->number - 1) % PAGES] : NULL;
    if (full && full->data) {
        int r = flush(s, full, err);
        if (r < 0)
            return r;
        p->data = full->data;
        *full = (struct page){0};
        return 0;
    }
    p->data = kymo_malloc(PAGE_BYTES);
    return p->data ? 0 : kymo_err_set(err, -ENOMEM, "no memory for a spill page");
}

/* Makes the page of a record the near one. */
static int come_near(struct spill *s, uint64_t index, struct kymo_err *err)
{
    uint64_t number = index / s->per_page;
    struct page *p = &s->pages[number % PAGES];
    s->near = NULL;
    s->near_first = number * s->per_page;
    if (p->used && p->number == number) {
        s->near = p;
        return 0;
    }
    int r = flush(s, p, err);
    if (r < 0)
        return r;
    p->used = false;
    p->number = number;
    if (!p->data && (r = get_memory(s, p, err)) < 0)
        return r;
    r = load(s, p, err);
    if (r < 0)
        return r;
    p->used = true;
    s->near = p;
    return 0;
}

/* Most records follow the one before, whose page needs no search. */
static bool is_near(const struct spill *s, uint64_t index)
{
    return s->near && index >= s->near_first && index - s->near_first < s->per_page;
}

static size_t place_of(const struct spill *s, uint64_t index)
{
    return (size_t)(index - s->near_first) * s->size;
}

int spill_put(struct spill *s, uint64_t index, const void *record, struct kymo_err *err)
{
    s->revisited |= index != s->count;
    int r = is_near(s, index) ? 0 : come_near(s, index, err);
    if (r < 0)
        return r;
    struct page *p = s->near;
    size_t at = place_of(s, index);
    fill(p, at);
    memcpy(p->data + at, record, s->size);
    p->filled = p->filled > at + s->size ? p->filled : at + s->size;
    p->dirty = true;
    if (index >= s->count)
        s->count = index + 1;
    return 0;
}

int spill_extend(struct spill *s, void **ret, struct kymo_err *err)
{
    int r = is_near(s, s->count) ? 0 : come_near(s, s->count, err);
    if (r < 0)
        return r;
    struct page *p = s->near;
    size_t at = place_of(s, s->count);
    fill(p, at);
    p->filled = p->filled > at + s->size ? p->filled : at + s->size;
    p->dirty = true;
    s->count++;
    *ret = p->data + at;
    return 0;
}

int spill_append(struct spill *s, const void *record, struct kymo_err *err)
{
    void *to;
    int r = spill_extend(s, &to, err);
    if (r == 0)
        memcpy(to, record, s->size);
    return r;
}

int spill_get(struct spill *s, uint64_t index, void *record, struct kymo_err *err)
{
    if (index >= s->count)
        return kymo_err_set(err, -ERANGE, "spill index %llu is beyond %llu", (unsigned long long)index,
                            (unsigned long long)s->count);
    s->revisited = true;
    int r = is_near(s, index) ? 0 : come_near(s, index, err);
    if (r < 0)
        return r;
    size_t at = place_of(s, index);
    fill(s->near, at + s->size);
    memcpy(record, s->near->data + at, s->size);
    return 0;
}

int spill_seal(struct spill *s, struct kymo_err *err)
{
    s->near = NULL;
    for (unsigned i = 0; i < PAGES; i++) {
        struct page *p = &s->pages[i];
        int r = flush(s, p, err);
        if (r < 0)
            return r;
        kymo_free(p->data);
        *p = (struct page){0};
    }
    return 0;
}

int spill_reader_init(struct spill_reader *r, const struct spill *s, struct kymo_err *err)
{
    *r = (struct spill_reader){.spill = s, .room = (s->per_page + READER_PARTS - 1) / READER_PARTS};
    r->buf = kymo_malloc(r->room * s->size);
    return r->buf ? 0 : kymo_err_set(err, -ENOMEM, "no memory for a spill reader");
}

void spill_reader_done(struct spill_reader *r)
{
    kymo_free(r->buf);
    r->buf = NULL;
}

/* Pages hold whole records and are written whole, so a record's place follows from its page. */
static int refill(struct spill_reader *r, struct kymo_err *err)
{
    const struct spill *s = r->spill;
    uint64_t in_page = r->next % s->per_page, page = r->next / s->per_page;
    uint64_t n = r->room;
    if (n > s->per_page - in_page)
        n = s->per_page - in_page;
    if (n > s->count - r->next)
        n = s->count - r->next;
    uint64_t off = page * PAGE_BYTES + in_page * s->size;
    int e = kymo_file_pread_all(s->fd, r->buf, (size_t)n * s->size, off, s->path, err);
    if (e < 0)
        return e;
    r->first = r->next;
    r->held = (size_t)n;
    return 0;
}

int spill_reader_next(struct spill_reader *r, const void **ret, struct kymo_err *err)
{
    if (r->next >= r->spill->count)
        return 0;
    if (r->next >= r->first + r->held) {
        int e = refill(r, err);
        if (e < 0)
            return e;
    }
    *ret = r->buf + (size_t)(r->next - r->first) * r->spill->size;
    r->next++;
    return 1;
}
