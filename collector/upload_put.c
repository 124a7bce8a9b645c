/* One piece of a file on its way to the disk: bytes come on the loop, and are written and hashed on a thread of
 * libuv's. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/http_body.h"
#include "collector/json_text.h"
#include "collector/upload_impl.h"

struct put {
    uv_work_t work; /* first */
    struct upload *upload;
    size_t file;
    struct http_request *request;
    bool writing, over, gone; /* over: all of the piece has come */
    uint64_t at;              /* where in the file the buffer goes */
    uint64_t left;            /* bytes of the file that may still come */
    int fd;
    struct kymo_sha256 *sha;
    size_t n;
    struct kymo_err err;
    uint8_t buffer[UPLOAD_BUFFER];
};

static struct upload_file *file_of(const struct put *p)
{
    return &p->upload->files[p->file];
}

/* The request is answered, and whoever wants to go on may. */
static void end(struct put *p)
{
    struct upload *u = p->upload;
    struct upload_file *f = file_of(p);
    f->busy = false;
    u->busy--;
    u->since_ms = uv_now(u->all->config.loop);
    if (p->gone)
        http_answer_error(p->request, 503, "gone", "the client has gone");
    else if (p->err.code)
        http_answer_err(p->request, &p->err);
    else
        http_answer_json(p->request, 200,
                         json_pack("{s:o, s:I, s:I}", "path", json_text(f->path), "size", (json_int_t)f->size,
                                   "received", (json_int_t)f->have));
    kymo_free(p);
    if (u->doomed)
        upload_drop(u);
}

static int write_out(struct put *p, struct kymo_err *err)
{
    const struct uploads *all = p->upload->all;
    uint64_t room = 0;
    int r = kymo_file_free_bytes(all->place, &room, err);
    if (r == 0 && (room < all->config.reserve || room - all->config.reserve < p->n))
        r = kymo_err_set(err, -ENOSPC, "the collector's disk is full");
    if (r == 0)
        r = kymo_file_pwrite_all(p->fd, p->buffer, p->n, p->at, "an uploaded file", err);
    if (r == 0) {
        int added = kymo_sha256_add(p->sha, p->buffer, p->n);
        r = added < 0 ? kymo_err_set(err, added, "no SHA-256: %s", strerror(-added)) : 0;
    }
    return r;
}

static void on_work(uv_work_t *work)
{
    struct put *p = (struct put *)work;
    if (write_out(p, &p->err) == 0)
        p->err.code = 0;
}

static void start(struct put *p);

/* The last byte of a file: its hash is known. */
static void take_whole(struct put *p, struct upload_file *f)
{
    int r = kymo_sha256_end(f->sha, f->sha256);
    if (r < 0) {
        (void)kymo_err_set(&p->err, r, "no SHA-256: %s", strerror(-r));
        return;
    }
    kymo_sha256_freep(&f->sha);
    f->sha = NULL;
    f->fd = kymo_file_close(f->fd);
    f->whole = true;
}

static void go_on(struct put *p)
{
    struct upload_file *f = file_of(p);
    if (!p->err.code && !p->gone && p->over && p->n > 0) {
        start(p);
        return;
    }
    if (!p->err.code && f->have == f->size && !f->whole)
        take_whole(p, f);
    if (p->over || p->gone || p->err.code)
        end(p);
    else
        http_body_resume(p->request);
}

static void on_done(uv_work_t *work, int status)
{
    struct put *p = (struct put *)work;
    struct upload_file *f = file_of(p);
    p->writing = false;
    if (status < 0)
        (void)kymo_err_set(&p->err, -EBUSY, "the collector is being stopped");
    if (!p->err.code) {
        f->have += p->n;
        p->upload->bytes += p->n;
        p->at += p->n;
    }
    p->n = 0;
    go_on(p);
}

static void start(struct put *p)
{
    p->writing = true;
    if (uv_queue_work(p->upload->all->config.loop, &p->work, on_work, on_done) == 0)
        return;
    p->writing = false;
    (void)kymo_err_set(&p->err, -EBUSY, "no thread for an upload");
    end(p);
}

static size_t on_data(void *ctx, const void *data, size_t n)
{
    struct put *p = ctx;
    if (p->writing)
        return 0;
    if (p->upload->doomed) {
        (void)kymo_err_set(&p->err, -ENOENT, "the upload was given up");
        end(p);
        return n;
    }
    if (n > p->left) {
        (void)kymo_err_set(&p->err, -EINVAL, "%.200s: more bytes come than its size says", file_of(p)->path);
        end(p);
        return n;
    }
    size_t room = sizeof p->buffer - p->n, taken = n < room ? n : room;
    memcpy(p->buffer + p->n, data, taken);
    p->n += taken;
    p->left -= taken;
    if (p->n == sizeof p->buffer)
        start(p);
    return taken;
}

static void on_end(void *ctx)
{
    struct put *p = ctx;
    p->over = true;
    if (!p->writing)
        go_on(p);
}

static void on_gone(void *ctx)
{
    struct put *p = ctx;
    p->gone = true;
    if (!p->writing)
        end(p);
}

static const struct http_body_ops ops = {.data = on_data, .end = on_end, .gone = on_gone};

/* What another file needs as a folder, or has as one: "a" and "a/b". */
static bool is_folder_of(const char *folder, const char *path)
{
    size_t n = strlen(folder);
    return !strncmp(folder, path, n) && path[n] == '/';
}

static uint64_t promised(const struct upload *u)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < u->n; i++)
        sum += u->files[i].size;
    return sum;
}

/* The place of a file of this path in the list, new or not. */
static int find_file(struct upload *u, const struct upload_piece *piece, size_t *ret, struct kymo_err *err)
{
    for (size_t i = 0; i < u->n; i++) {
        struct upload_file *f = &u->files[i];
        if (is_folder_of(f->path, piece->path) || is_folder_of(piece->path, f->path))
            return kymo_err_set(err, -EINVAL, "%.200s is a file and a folder in this upload", piece->path);
        if (strcmp(f->path, piece->path) != 0 || f->source != piece->source)
            continue;
        if (f->size != piece->size)
            return kymo_err_set(err, -EEXIST, "%.200s comes with %llu bytes, and came with %llu before", f->path,
                                (unsigned long long)piece->size, (unsigned long long)f->size);
        *ret = i;
        return 0;
    }
    if (promised(u) > u->declared || piece->size > u->declared - promised(u))
        return kymo_err_set(err, -EINVAL, "the upload was said to have %llu bytes, and its files have more",
                            (unsigned long long)u->declared);
    void *list = u->files;
    int r = kymo_grow(&list, &u->cap, u->n + 1, MANIFEST_FILES_MAX - 1, sizeof *u->files);
    u->files = list;
    if (r == -ENOBUFS)
        return kymo_err_set(err, -E2BIG, "an upload has at most %d files", MANIFEST_FILES_MAX - 1);
    char *path = r < 0 ? NULL : kymo_strdup(piece->path);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "no memory for uploads");
    u->files[u->n] = (struct upload_file){.path = path, .size = piece->size, .source = piece->source, .fd = -1};
    *ret = u->n++;
    return 0;
}

/* From the beginning, or where it ended. */
static int open_file(struct upload *u, size_t i, uint64_t offset, struct kymo_err *err)
{
    struct upload_file *f = &u->files[i];
    char *part KYMO_FREE = upload_part_path(u, i);
    if (!part)
        return kymo_err_set(err, -ENOMEM, "no memory for uploads");
    if (f->fd >= 0 && offset == f->have && offset > 0)
        return 0;
    if (offset != 0)
        return kymo_err_set(err, -EEXIST, "%.200s: %llu bytes are here, the piece begins at %llu", f->path,
                            (unsigned long long)f->have, (unsigned long long)offset);
    u->bytes -= f->have;
    f->have = 0;
    f->whole = false;
    kymo_file_close(f->fd);
    kymo_sha256_freep(&f->sha);
    f->sha = kymo_sha256_new();
    f->fd = f->sha ? kymo_file_open(part, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0666, err)
                   : kymo_err_set(err, -ENOMEM, "no memory for uploads");
    return f->fd < 0 ? f->fd : 0;
}

static int check(const struct upload_piece *piece, uint64_t length, struct kymo_err *err)
{
    if (!manifest_is_file_name(piece->path))
        return kymo_err_set(err, -EINVAL, "a file's path is relative, has no . or .. in it, and at most %d bytes",
                            MANIFEST_NAME_MAX);
    if (piece->size > MANIFEST_SIZE_MAX)
        return kymo_err_set(err, -EINVAL, "%.200s: a file has at most %llu bytes", piece->path, MANIFEST_SIZE_MAX);
    if (piece->offset > piece->size || (length != UINT64_MAX && length > piece->size - piece->offset))
        return kymo_err_set(err, -EINVAL, "%.200s: the piece ends behind the file", piece->path);
    return 0;
}

static int prepare(struct upload *u, const struct upload_piece *piece, const struct http_request *q, size_t *ret,
                   struct kymo_err *err)
{
    int r = u->publishing ? kymo_err_set(err, -EEXIST, "the upload enters the store already") : 0;
    if (r == 0)
        r = check(piece, http_body_length(q), err);
    if (r == 0)
        r = find_file(u, piece, ret, err);
    if (r == 0 && u->files[*ret].busy)
        r = kymo_err_set(err, -EEXIST, "a piece of %.200s is on its way already", piece->path);
    return r < 0 ? r : open_file(u, *ret, piece->offset, err);
}

void upload_put(struct uploads *all, const char *user, const char *id, const struct upload_piece *piece,
                struct http_request *q)
{
    struct kymo_err err = {0};
    size_t file = 0;
    struct upload *u = upload_find(all, user, id);
    int r = u ? prepare(u, piece, q, &file, &err) : kymo_err_set(&err, -ENOENT, "there is no such upload");
    if (r < 0) {
        http_answer_err(q, &err);
        return;
    }
    struct put *p = KYMO_NEW(struct put);
    if (!p) {
        http_answer_error(q, 503, "no_memory", "no memory for uploads");
        return;
    }
    struct upload_file *f = &u->files[file];
    f->busy = true;
    u->busy++;
    u->since_ms = uv_now(all->config.loop);
    p->upload = u;
    p->file = file;
    p->request = q;
    p->at = piece->offset;
    p->left = piece->size - piece->offset;
    p->fd = f->fd;
    p->sha = f->sha;
    http_take_body(q, &ops, p);
}
