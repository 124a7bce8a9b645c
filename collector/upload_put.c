/* One piece of a file on its way to the disk: bytes come on the loop, and are written, hashed and made durable on a
 * thread of libuv's, where the file is opened, too: only pieces that are on their way have a descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/http_body.h"
#include "collector/json_text.h"
#include "collector/upload_impl.h"

struct upload_put {
    uv_work_t work; /* first */
    struct upload *upload;
    size_t file;
    struct http_request *request;
    bool writing, over, gone; /* over: all of the piece has come */
    bool anew;                /* the file begins here: what there is of it goes */
    bool lost;                /* what is in the file cannot be relied on */
    uint64_t at;              /* where in the file the buffer goes */
    uint64_t left;            /* bytes of the file that may still come */
    uint64_t durable;         /* so many bytes of it are */
    uint64_t size;            /* of the file */
    uint64_t heard_ms;        /* when something last came */
    char *path;               /* of the part */
    int fd;                   /* -1: not open yet */
    struct kymo_sha256 *sha;
    size_t n;
    struct kymo_err err;
    uint8_t buffer[UPLOAD_BUFFER];
};

static struct upload_file *file_of(const struct upload_put *p)
{
    return &p->upload->files[p->file];
}

/* The request is answered, and whoever wants to go on may. */
static void end(struct upload_put *p)
{
    struct upload *u = p->upload;
    struct upload_file *f = file_of(p);
    f->put = NULL;
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
    kymo_file_close(p->fd);
    kymo_free(p->path);
    kymo_free(p);
    if (u->doomed)
        upload_drop(u, NULL);
}

static int append(struct upload_put *p, struct kymo_err *err)
{
    const struct uploads *all = p->upload->all;
    uint64_t room = 0;
    int r = kymo_file_free_bytes(all->place, &room, err);
    if (r == 0 && (room < all->config.reserve || room - all->config.reserve < p->n))
        r = kymo_err_set(err, -ENOSPC, "the collector's disk is full");
    if (r == 0)
        r = kymo_file_pwrite_all(p->fd, p->buffer, p->n, p->at, "an uploaded file", err);
    if (r < 0)
        return r;
    int added = kymo_sha256_add(p->sha, p->buffer, p->n);
    p->lost = added < 0;
    return added < 0 ? kymo_err_set(err, added, "no SHA-256: %s", strerror(-added)) : 0;
}

/* A sync that fails is not tried again: nobody knows what the file holds then. */
static int make_durable(struct upload_put *p, uint64_t have, struct kymo_err *err)
{
    if (have < p->size && have - p->durable < UPLOAD_SYNC)
        return 0;
    int r = kymo_file_sync(p->fd, "an uploaded file", err);
    p->lost = r < 0;
    p->durable = have;
    return r;
}

static int write_out(struct upload_put *p, struct kymo_err *err)
{
    int r = 0;
    if (p->fd < 0) {
        p->fd = kymo_file_open(p->path, O_WRONLY | O_CREAT | O_NOFOLLOW | (p->anew ? O_TRUNC : 0), 0666, err);
        r = p->fd < 0 ? p->fd : 0;
    }
    if (r == 0 && p->n > 0)
        r = append(p, err);
    return r < 0 ? r : make_durable(p, p->at + p->n, err);
}

static void on_work(uv_work_t *work)
{
    struct upload_put *p = (struct upload_put *)work;
    if (write_out(p, &p->err) == 0)
        p->err.code = 0;
}

static void start(struct upload_put *p);

/* The last byte of a file: its hash is known. */
static void take_whole(struct upload_put *p, struct upload_file *f)
{
    int r = kymo_sha256_end(f->sha, f->sha256);
    if (r < 0) {
        (void)kymo_err_set(&p->err, r, "no SHA-256: %s", strerror(-r));
        return;
    }
    kymo_sha256_freep(&f->sha);
    f->sha = NULL;
    f->whole = true;
}

static void go_on(struct upload_put *p)
{
    struct upload_file *f = file_of(p);
    if (!p->err.code && !p->gone && p->over && (p->n > 0 || p->fd < 0)) {
        start(p);
        return;
    }
    if (!p->err.code && p->fd >= 0 && f->have == f->size && !f->whole)
        take_whole(p, f);
    if (p->over || p->gone || p->err.code)
        end(p);
    else
        http_body_resume(p->request);
}

static void on_done(uv_work_t *work, int status)
{
    struct upload_put *p = (struct upload_put *)work;
    struct upload_file *f = file_of(p);
    p->writing = false;
    if (status < 0)
        (void)kymo_err_set(&p->err, -EBUSY, "the collector is being stopped");
    if (!p->err.code) {
        f->have += p->n;
        p->upload->bytes += p->n;
        p->at += p->n;
        f->durable = p->durable;
    }
    if (p->lost) {
        p->upload->bytes -= f->have;
        f->have = f->durable = 0;
    }
    p->heard_ms = uv_now(p->upload->all->config.loop);
    p->n = 0;
    go_on(p);
}

static void start(struct upload_put *p)
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
    struct upload_put *p = ctx;
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
    p->heard_ms = uv_now(p->upload->all->config.loop);
    memcpy(p->buffer + p->n, data, taken);
    p->n += taken;
    p->left -= taken;
    if (p->n == sizeof p->buffer)
        start(p);
    return taken;
}

static void on_end(void *ctx)
{
    struct upload_put *p = ctx;
    p->over = true;
    if (!p->writing)
        go_on(p);
}

static void on_gone(void *ctx)
{
    struct upload_put *p = ctx;
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
    u->files[u->n] = (struct upload_file){.path = path, .size = piece->size, .source = piece->source};
    *ret = u->n++;
    return 0;
}

/* From the beginning, or where it ended. */
static int begin_piece(struct upload *u, struct upload_file *f, uint64_t offset, struct kymo_err *err)
{
    if (f->sha && offset == f->have && offset > 0)
        return 0;
    struct kymo_sha256 *sha = kymo_sha256_new();
    if (!sha)
        return kymo_err_set(err, -ENOMEM, "no memory for uploads");
    u->bytes -= f->have;
    f->have = f->durable = 0;
    f->whole = false;
    kymo_sha256_freep(&f->sha);
    f->sha = sha;
    return 0;
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

/* One whose connection is dead, or as good as that, gives way to another for the same file. */
static bool gives_way(struct upload_put *p)
{
    if (p->writing || uv_now(p->upload->all->config.loop) - p->heard_ms < UPLOAD_SILENT_MS)
        return false;
    (void)kymo_err_set(&p->err, -EEXIST, "another connection goes on with this piece");
    end(p);
    return true;
}

static int prepare(struct upload *u, const struct upload_piece *piece, const struct http_request *q, size_t *ret,
                   struct kymo_err *err)
{
    int r = u->state == UPLOAD_FINISHING || u->state == UPLOAD_DONE
                ? kymo_err_set(err, -EEXIST, "the upload enters the store already")
                : 0;
    if (r == 0)
        r = check(piece, http_body_length(q), err);
    return r < 0 ? r : find_file(u, piece, ret, err);
}

/* Errors that go away when the client asks again where the file ends. */
static bool must_ask_again(struct upload_file *f, uint64_t offset, struct http_request *q)
{
    if (f->put && !gives_way(f->put)) {
        http_answer_error(q, 409, "busy", "a piece of %.200s is on its way already", f->path);
        return true;
    }
    if (offset == 0 || (f->sha && offset == f->have))
        return false;
    http_answer_error(q, 409, "offset", "%.200s: %llu bytes are here, the piece begins at %llu", f->path,
                      (unsigned long long)f->have, (unsigned long long)offset);
    return true;
}

static struct upload_put *new_put(struct upload *u, size_t file, const struct upload_piece *piece)
{
    struct upload_put *p = KYMO_NEW(struct upload_put);
    char *path = p ? upload_part_path(u, file) : NULL;
    if (!path) {
        kymo_free(p);
        return NULL;
    }
    p->path = path;
    p->upload = u;
    p->file = file;
    p->fd = -1;
    p->anew = piece->offset == 0;
    p->at = piece->offset;
    p->size = piece->size;
    p->left = piece->size - piece->offset;
    p->heard_ms = uv_now(u->all->config.loop);
    return p;
}

void upload_put(struct uploads *all, const char *user, const char *id, const struct upload_piece *piece,
                struct http_request *q)
{
    struct kymo_err err = {0};
    size_t file = 0;
    struct upload *u = upload_find(all, user, id);
    int r = u ? prepare(u, piece, q, &file, &err) : kymo_err_set(&err, -ENOENT, "there is no such upload");
    if (r == 0 && must_ask_again(&u->files[file], piece->offset, q))
        return;
    struct upload_put *p = r < 0 ? NULL : new_put(u, file, piece);
    if (r == 0)
        r = p ? begin_piece(u, &u->files[file], piece->offset, &err)
              : kymo_err_set(&err, -ENOMEM, "no memory for uploads");
    if (r < 0) {
        if (p)
            kymo_free(p->path);
        kymo_free(p);
        http_answer_err(q, &err);
        return;
    }
    struct upload_file *f = &u->files[file];
    f->put = p;
    u->busy++;
    u->state = UPLOAD_RECEIVING;
    u->since_ms = uv_now(all->config.loop);
    p->request = q;
    p->sha = f->sha;
    p->durable = f->durable;
    http_take_body(q, &ops, p);
}
