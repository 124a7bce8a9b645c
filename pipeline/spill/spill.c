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

#define PAGE_BYTES 65536u
#define PAGES 8u
#define READER_BYTES 4096u
#define RECORD_MAX 4096u

struct page {
    uint8_t *data;
    uint64_t number;
    bool used, dirty;
};

struct spill {
    int fd;
    char *path; /* for messages: the file has no name any more */
    size_t size, per_page;
    uint64_t count;
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

static int flush(struct spill *s, struct page *p, struct kymo_err *err)
{
    if (!p->used || !p->dirty)
        return 0;
    size_t n = s->per_page * s->size;
    int r = kymo_file_pwrite_all(s->fd, p->data, n, p->number * n, s->path, err);
    if (r == 0)
        p->dirty = false;
    return r;
}

static int load(struct spill *s, struct page *p, struct kymo_err *err)
{
    size_t n = s->per_page * s->size;
    uint64_t length;
    int r = kymo_file_size(s->fd, &length, s->path, err);
    if (r < 0)
        return r;
    memset(p->data, 0, n);
    uint64_t off = p->number * n;
    if (off >= length)
        return 0;
    size_t have = length - off < n ? (size_t)(length - off) : n;
    return kymo_file_pread_all(s->fd, p->data, have, off, s->path, err);
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
    if (!p->data && !(p->data = kymo_malloc(PAGE_BYTES)))
        return kymo_err_set(err, -ENOMEM, "no memory for a spill page");
    int r = flush(s, p, err);
    if (r < 0)
        return r;
    p->used = false;
    p->number = number;
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

static uint8_t *place_of(const struct spill *s, uint64_t index)
{
    return s->near->data + (size_t)(index - s->near_first) * s->size;
}

int spill_put(struct spill *s, uint64_t index, const void *record, struct kymo_err *err)
{
    int r = is_near(s, index) ? 0 : come_near(s, index, err);
    if (r < 0)
        return r;
    memcpy(place_of(s, index), record, s->size);
    s->near->dirty = true;
    if (index >= s->count)
        s->count = index + 1;
    return 0;
}

int spill_append(struct spill *s, const void *record, struct kymo_err *err)
{
    return spill_put(s, s->count, record, err);
}

int spill_get(struct spill *s, uint64_t index, void *record, struct kymo_err *err)
{
    if (index >= s->count)
        return kymo_err_set(err, -ERANGE, "spill index %llu is beyond %llu", (unsigned long long)index,
                            (unsigned long long)s->count);
    int r = is_near(s, index) ? 0 : come_near(s, index, err);
    if (r < 0)
        return r;
    memcpy(record, place_of(s, index), s->size);
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
    *r = (struct spill_reader){.spill = s};
    r->buf = kymo_malloc(READER_BYTES);
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
    uint64_t n = READER_BYTES / s->size;
    if (n > s->per_page - in_page)
        n = s->per_page - in_page;
    if (n > s->count - r->next)
        n = s->count - r->next;
    uint64_t off = (page * s->per_page + in_page) * s->size;
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
