#include "pipeline/spill/text_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"

#define WINDOW_BYTES (256u << 10)
#define TEXT_MAX ((size_t)64 << 20)
/* Readers go through several parts of the file in turns, one for each core's events. */
#define PAGE_BYTES (32u << 10)
#define PAGES 256u

struct page {
    uint8_t *data;
    uint64_t number; /* plus 1; 0: empty */
    size_t len;
};

struct text_store {
    int fd;
    char *path; /* for messages: the file has no name any more */
    struct kymo_buf out, in;
    uint64_t written; /* out lies behind */
    struct page pages[PAGES];
};

int text_store_open(const char *dir, struct text_store **ret, struct kymo_err *err)
{
    static unsigned serial;
    struct text_store *t = KYMO_NEW(struct text_store);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory for texts");
    kymo_buf_init(&t->out, TEXT_MAX + WINDOW_BYTES);
    kymo_buf_init(&t->in, TEXT_MAX + WINDOW_BYTES);
    t->fd = -1;
    t->path = kymo_asprintf("%s/.texts-%ld-%u", dir, (long)getpid(), serial++);
    int r = t->path ? 0 : kymo_err_set(err, -ENOMEM, "no memory for texts");
    if (r == 0)
        t->fd = r = kymo_file_open(t->path, O_RDWR | O_CREAT | O_EXCL, 0600, err);
    if (r < 0) {
        text_store_free(t);
        return r;
    }
    (void)kymo_file_ops()->unlink(t->path);
    *ret = t;
    return 0;
}

struct text_store *text_store_free(struct text_store *t)
{
    if (!t)
        return NULL;
    kymo_file_close(t->fd);
    for (unsigned i = 0; i < PAGES; i++)
        kymo_free(t->pages[i].data);
    kymo_buf_done(&t->out);
    kymo_buf_done(&t->in);
    kymo_free(t->path);
    kymo_free(t);
    return NULL;
}

static int flush(struct text_store *t, struct kymo_err *err)
{
    int r = kymo_file_pwrite_all(t->fd, t->out.data, t->out.len, t->written, t->path, err);
    if (r < 0)
        return r;
    t->written += t->out.len;
    kymo_buf_reset(&t->out);
    return 0;
}

int text_store_put(struct text_store *t, const void *data, size_t n, uint64_t *ret_place, struct kymo_err *err)
{
    int r = t->out.len > WINDOW_BYTES ? flush(t, err) : 0;
    if (r < 0)
        return r;
    *ret_place = t->written + t->out.len;
    r = n > TEXT_MAX ? -ENOBUFS : kymo_buf_append(&t->out, data, n);
    return r < 0 ? kymo_err_set(err, r, "no room for a text of %zu bytes", n) : 0;
}

/* A page that has grown since it was read is read anew. */
static int load(struct text_store *t, uint64_t number, size_t need, struct page **ret, struct kymo_err *err)
{
    struct page *p = &t->pages[number % PAGES];
    *ret = p;
    if (p->number == number + 1 && p->len >= need)
        return 0;
    if (!p->data && !(p->data = kymo_malloc(PAGE_BYTES)))
        return kymo_err_set(err, -ENOMEM, "no memory for a page of texts");
    uint64_t off = number * PAGE_BYTES, left = t->written - off;
    p->number = 0;
    p->len = left < PAGE_BYTES ? (size_t)left : PAGE_BYTES;
    int r = kymo_file_pread_all(t->fd, p->data, p->len, off, t->path, err);
    if (r == 0)
        p->number = number + 1;
    return r;
}

/* One that lies in several pages is put together. */
static int gather(struct text_store *t, uint64_t place, size_t n, struct kymo_err *err)
{
    kymo_buf_reset(&t->in);
    while (n) {
        size_t at = (size_t)(place % PAGE_BYTES), part = PAGE_BYTES - at < n ? PAGE_BYTES - at : n;
        struct page *p;
        int r = load(t, place / PAGE_BYTES, at + part, &p, err);
        if (r == 0 && kymo_buf_append(&t->in, p->data + at, part) < 0)
            r = kymo_err_set(err, -ENOMEM, "no memory for a text");
        if (r < 0)
            return r;
        place += part;
        n -= part;
    }
    return 0;
}

int text_store_get(struct text_store *t, uint64_t place, size_t n, const char **ret, struct kymo_err *err)
{
    int r = t->out.len ? flush(t, err) : 0;
    if (r == 0 && (place > t->written || n > t->written - place))
        r = kymo_err_set(err, -ERANGE, "no text of %zu bytes at %llu", n, (unsigned long long)place);
    size_t at = (size_t)(place % PAGE_BYTES);
    struct page *p = NULL;
    if (r == 0 && at + n <= PAGE_BYTES && n)
        r = load(t, place / PAGE_BYTES, at + n, &p, err);
    else if (r == 0)
        r = gather(t, place, n, err);
    if (r == 0)
        *ret = p ? (const char *)p->data + at : (const char *)t->in.data;
    return r;
}
