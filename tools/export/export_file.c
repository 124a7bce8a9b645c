#include "tools/export/export_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

#define PIECE (1u << 20)
#define HELD_MAX (512u << 20)

int export_file_open(struct export_file *f, const char *path, struct kymo_err *err)
{
    *f = (struct export_file){.fd = -1};
    kymo_buf_init(&f->held, HELD_MAX);
    f->path = kymo_strdup(path);
    if (!f->path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    f->fd = kymo_file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666, err);
    return f->fd < 0 ? f->fd : 0;
}

static int flush(struct export_file *f, struct kymo_err *err)
{
    int r = kymo_file_pwrite_all(f->fd, f->held.data, f->held.len, f->offset, f->path, err);
    if (r == 0) {
        f->offset += f->held.len;
        kymo_buf_reset(&f->held);
    }
    return r;
}

int export_file_write(struct export_file *f, const void *data, size_t n, struct kymo_err *err)
{
    int r = kymo_buf_append(&f->held, data, n);
    if (r < 0)
        return kymo_err_set(err, r, "%s: %s", f->path, strerror(-r));
    return f->held.len >= PIECE ? flush(f, err) : 0;
}

int export_file_rewind(struct export_file *f, struct kymo_err *err)
{
    kymo_buf_reset(&f->held);
    f->offset = 0;
    if (kymo_file_ops()->ftruncate(f->fd, 0) < 0)
        return kymo_err_set(err, -errno, "%s: cannot be emptied: %s", f->path, strerror(errno));
    return 0;
}

int export_file_finish(struct export_file *f, struct kymo_err *err)
{
    int r = flush(f, err);
    return r < 0 ? r : kymo_file_sync(f->fd, f->path, err);
}

void export_file_done(struct export_file *f)
{
    f->fd = kymo_file_close(f->fd);
    kymo_buf_done(&f->held);
    kymo_free(f->path);
    f->path = NULL;
}
