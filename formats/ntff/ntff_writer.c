#include "formats/ntff/ntff_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "formats/ntff/ntff_header.h"
#include "formats/ntff/ntff_index.h"
#include "formats/ntff/ntff_reader.h"
#include "formats/ntff/ntff_walk.h"

#define CHUNK (1u << 20)

static int memory_read(void *ctx, uint64_t off, void *buf, size_t n)
{
    memcpy(buf, (const uint8_t *)ctx + off, n);
    return 0;
}

struct ntff_source ntff_source_memory(const void *mem, size_t n)
{
    /* The table's ctx is not const, but memory_read only reads. */
    return (struct ntff_source){.size = n, .read = memory_read, .ctx = (void *)(uintptr_t)mem};
}

/* A source by the entry that it fills, sorted by the entry's address. */
struct bound_source {
    const void *info;
    const struct ntff_source *bytes;
    bool used;
};

/* One blob section: what there is, and what is copied one after the other. */
struct section {
    struct bound_source *bound;
    size_t n;
    const struct ntff_source **order;
    size_t n_order;
    uint64_t size;
};

struct writer {
    const char *path;
    struct kymo_err *err;
    struct section images, rings;
    struct ntff_header header;
    uint8_t *head; /* header, protobuf and padding: everything before instruction_base */
    int fd;
    uint8_t *chunk;
};

static int out_of_memory(const struct writer *w)
{
    return kymo_err_set(w->err, -ENOMEM, "%s: out of memory", w->path);
}

static void section_done(struct section *s)
{
    kymo_free(s->bound);
    kymo_free(s->order);
}

static void writer_done(struct writer *w)
{
    section_done(&w->images);
    section_done(&w->rings);
    kymo_free(w->head);
    kymo_free(w->chunk);
    w->fd = kymo_file_close(w->fd);
}

static int compare_bound(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct bound_source *)a)->info,
              y = (uintptr_t)((const struct bound_source *)b)->info;
    return (x > y) - (x < y);
}

static int section_init(const struct writer *w, struct section *s, size_t n)
{
    s->n = n;
    s->bound = KYMO_NEW_ARRAY(struct bound_source, n);
    s->order = KYMO_NEW_ARRAY(const struct ntff_source *, n);
    return s->bound && s->order ? 0 : out_of_memory(w);
}

static int bind_sources(struct writer *w, const struct ntff_image_source *images, size_t n_images,
                        const struct ntff_ring_source *rings, size_t n_rings)
{
    int r = section_init(w, &w->images, n_images);
    if (r == 0)
        r = section_init(w, &w->rings, n_rings);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n_images; i++)
        w->images.bound[i] = (struct bound_source){.info = images[i].info, .bytes = &images[i].bytes};
    for (size_t i = 0; i < n_rings; i++)
        w->rings.bound[i] = (struct bound_source){.info = rings[i].info, .bytes = &rings[i].bytes};
    qsort(w->images.bound, n_images, sizeof *w->images.bound, compare_bound);
    qsort(w->rings.bound, n_rings, sizeof *w->rings.bound, compare_bound);
    return 0;
}

/* Gives the entry the next bytes of its section. */
static int place_blob(const struct writer *w, struct section *s, const void *info, uint64_t *ret_offset,
                      uint64_t *ret_size)
{
    const struct bound_source key = {.info = info};
    struct bound_source *b = s->n ? bsearch(&key, s->bound, s->n, sizeof key, compare_bound) : NULL;
    if (b && b->used)
        return kymo_err_set(w->err, -EINVAL, "%s: one entry stands twice in the profile", w->path);
    *ret_offset = s->size;
    *ret_size = b ? b->bytes->size : 0;
    if (!b)
        return 0;
    if (__builtin_add_overflow(s->size, *ret_size, &s->size))
        return kymo_err_set(w->err, -EFBIG, "%s: the blobs are too large for any file", w->path);
    b->used = true;
    s->order[s->n_order++] = b->bytes;
    return 0;
}

static int place_image(void *ctx, Ntff__EngineInstructionInfo *info, const struct ntff_place *place)
{
    (void)place;
    struct writer *w = ctx;
    return place_blob(w, &w->images, info, &info->instructions_offset, &info->instructions_size);
}

static int place_ring(void *ctx, Ntff__TraceInfo *info, const struct ntff_place *place)
{
    (void)place;
    struct writer *w = ctx;
    return place_blob(w, &w->rings, info, &info->offset, &info->size);
}

static int lay_out(struct writer *w, Ntff__NtffInfo *info)
{
    static const struct ntff_visitor visitor = {.image = place_image, .ring = place_ring};
    if (info->ntff_version == 0)
        info->ntff_version = NTFF_VERSION;
    int r = ntff_walk(info, &visitor, w);
    if (r < 0)
        return r;
    /* A source of no entry, or two of one, would be bytes that nobody finds again. */
    size_t unused = w->images.n - w->images.n_order + w->rings.n - w->rings.n_order;
    if (unused > 0)
        return kymo_err_set(w->err, -EINVAL,
                            "%s: %zu sources name an entry that is not in the profile or has a source already", w->path,
                            unused);
    w->header.instruction_size = w->images.size;
    w->header.notification_size = w->rings.size;
    w->header.flags = w->rings.size == 0 ? NTFF_FLAG_NO_RECORDS : 0;
    return 0;
}

/* Packs info behind the header's place and completes the header with what depends on it. */
static int pack_head(struct writer *w, const Ntff__NtffInfo *info)
{
    w->header.ntff_version = info->ntff_version;
    w->header.protobuf_size = ntff__ntff_info__get_packed_size(info);
    if (w->header.protobuf_size > NTFF_PROTOBUF_MAX)
        return kymo_err_set(w->err, -EFBIG, "%s: protobuf of %llu bytes, more than the limit of %u", w->path,
                            (unsigned long long)w->header.protobuf_size, NTFF_PROTOBUF_MAX);
    if (ntff_header_lay_out(&w->header) < 0)
        return kymo_err_set(w->err, -EFBIG, "%s: the blobs are too large for any file", w->path);
    w->head = kymo_calloc(1, (size_t)w->header.instruction_base);
    if (!w->head)
        return out_of_memory(w);
    uint8_t *protobuf = w->head + NTFF_HEADER_SIZE;
    (void)ntff__ntff_info__pack(info, protobuf);
    w->header.protobuf_crc32c = kymo_crc32c(0, protobuf, (size_t)w->header.protobuf_size);
    ntff_header_encode(&w->header, w->head);
    return 0;
}

/* The reader's own checks, before a byte is written. */
static int check_readable(const struct writer *w, const Ntff__NtffInfo *info)
{
    struct ntff_index ix;
    int r = ntff_index_build(info, &w->header, w->path, &ix, w->err);
    if (r == 0)
        ntff_index_done(&ix);
    if (r != -EPROTO)
        return r;
    if (w->err)
        w->err->code = -EINVAL;
    return -EINVAL;
}

static int copy_source(const struct writer *w, const struct ntff_source *s, uint64_t at)
{
    for (uint64_t done = 0; done < s->size;) {
        size_t n = s->size - done < CHUNK ? (size_t)(s->size - done) : CHUNK;
        int r = s->read(s->ctx, done, w->chunk, n);
        if (r < 0)
            return kymo_err_set(w->err, r, "%s: offset %llu: the source of these bytes failed: %s", w->path,
                                (unsigned long long)(at + done), strerror(-r));
        r = kymo_file_pwrite_all(w->fd, w->chunk, n, at + done, w->path, w->err);
        if (r < 0)
            return r;
        done += n;
    }
    return 0;
}

static int copy_section(const struct writer *w, const struct section *s, uint64_t at)
{
    for (size_t i = 0; i < s->n_order; i++) {
        int r = copy_source(w, s->order[i], at);
        if (r < 0)
            return r;
        at += s->order[i]->size;
    }
    return 0;
}

static int write_file(struct writer *w, const char *tmp)
{
    static const uint8_t zero[NTFF_ALIGN];
    const struct ntff_header *h = &w->header;
    w->fd = kymo_file_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, 0666, w->err);
    if (w->fd < 0)
        return w->fd;
    int r = kymo_file_pwrite_all(w->fd, w->head, (size_t)h->instruction_base, 0, w->path, w->err);
    if (r == 0)
        r = copy_section(w, &w->images, h->instruction_base);
    uint64_t image_end = h->instruction_base + h->instruction_size;
    if (r == 0)
        r = kymo_file_pwrite_all(w->fd, zero, (size_t)(h->notification_base - image_end), image_end, w->path, w->err);
    if (r == 0)
        r = copy_section(w, &w->rings, h->notification_base);
    return r == 0 ? kymo_file_sync(w->fd, w->path, w->err) : r;
}

/* Writes beside the path and publishes: data durable, then the name, then the directory that holds the name. */
static int publish(struct writer *w)
{
    char *tmp KYMO_FREE = kymo_asprintf("%s.tmp", w->path);
    w->chunk = kymo_malloc(CHUNK);
    if (!tmp || !w->chunk)
        return out_of_memory(w);
    int r = kymo_file_check_target(w->path, NULL, 0, w->err);
    if (r < 0)
        return r;
    r = write_file(w, tmp);
    if (r == 0)
        r = kymo_file_rename(tmp, w->path, w->err);
    if (r < 0) {
        (void)kymo_file_ops()->unlink(tmp);
        return r;
    }
    r = kymo_file_sync_parent(w->path, w->err);
    if (r < 0)
        (void)kymo_file_ops()->unlink(w->path);
    return r;
}

int ntff_writer_write(const char *path, Ntff__NtffInfo *info, const struct ntff_image_source *images, size_t n_images,
                      const struct ntff_ring_source *rings, size_t n_rings, struct kymo_err *err)
{
    struct writer w KYMO_CLEANUP(writer_done) = {.path = path, .err = err, .fd = -1};
    int r = bind_sources(&w, images, n_images, rings, n_rings);
    if (r == 0)
        r = lay_out(&w, info);
    if (r == 0)
        r = pack_head(&w, info);
    if (r == 0)
        r = check_readable(&w, info);
    return r < 0 ? r : publish(&w);
}

/* A section of an open file as one source. */
struct section_source {
    const struct ntff_reader *reader;
    uint64_t base;
};

static int section_read(void *ctx, uint64_t off, void *buf, size_t n)
{
    const struct section_source *s = ctx;
    return ntff_reader_bytes(s->reader, s->base + off, n, buf, NULL);
}

int ntff_rewrite(const char *from, const char *path, struct kymo_err *err)
{
    struct ntff_reader *reader KYMO_CLEANUP(ntff_reader_freep) = NULL;
    int r = ntff_reader_open(from, &reader, err);
    if (r < 0)
        return r;
    const struct ntff_header *h = ntff_reader_header(reader);
    struct section_source image_ctx = {reader, h->instruction_base}, ring_ctx = {reader, h->notification_base};
    const struct ntff_source images = {h->instruction_size, section_read, &image_ctx};
    const struct ntff_source rings = {h->notification_size, section_read, &ring_ctx};
    struct writer w KYMO_CLEANUP(writer_done) = {.path = path, .err = err, .fd = -1, .header = *h};
    r = section_init(&w, &w.images, 1);
    if (r == 0)
        r = section_init(&w, &w.rings, 1);
    if (r < 0)
        return r;
    /* Offsets count from the sections' starts, so whole sections move without a change in the protobuf. */
    w.images.order[w.images.n_order++] = &images;
    w.rings.order[w.rings.n_order++] = &rings;
    r = pack_head(&w, ntff_reader_info(reader));
    return r < 0 ? r : publish(&w);
}
