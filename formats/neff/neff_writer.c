#include "formats/neff/neff_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "formats/neff/neff_header.h"
#include "formats/neff/neff_path.h"

#define OWNER "nobody"
#define OWNER_ID 65534 /* what Linux calls nobody; the facts give the name alone */
#define MEMBER_MODE 0644

struct packed_member {
    char *name;
    uint8_t *data;
    size_t size;
};

struct neff_writer {
    struct packed_member *members;
    size_t count, cap;
};

struct neff_writer *neff_writer_new(void)
{
    return KYMO_NEW(struct neff_writer);
}

struct neff_writer *neff_writer_free(struct neff_writer *w)
{
    if (!w)
        return NULL;
    for (size_t i = 0; i < w->count; i++) {
        kymo_free(w->members[i].name);
        kymo_free(w->members[i].data);
    }
    kymo_free(w->members);
    kymo_free(w);
    return NULL;
}

void neff_writer_freep(struct neff_writer **w)
{
    *w = neff_writer_free(*w);
}

static bool has_member(const struct neff_writer *w, const char *name)
{
    for (size_t i = 0; i < w->count; i++)
        if (!strcmp(w->members[i].name, name))
            return true;
    return false;
}

int neff_writer_add(struct neff_writer *w, const char *name, const void *data, size_t n, struct kymo_err *err)
{
    const char *why = neff_path_unsafe(name);
    if (why || neff_path_strip(name) != name)
        return kymo_err_set(err, -EINVAL, "member \"%s\": %s", name, why ? why : "it begins with ./");
    if (n > NEFF_MEMBER_MAX)
        return kymo_err_set(err, -EFBIG, "member \"%s\": %zu bytes are too many", name, n);
    if (has_member(w, name))
        return kymo_err_set(err, -EEXIST, "member \"%s\" is there already", name);
    void *grown = w->members;
    int r = kymo_grow(&grown, &w->cap, w->count + 1, NEFF_MEMBERS_MAX, sizeof *w->members);
    w->members = grown;
    if (r < 0)
        return kymo_err_set(err, r, "member \"%s\": cannot hold %zu members", name, w->count + 1);
    char *name_copy KYMO_FREE = kymo_strdup(name);
    uint8_t *copy KYMO_FREE = kymo_malloc(n);
    if (!name_copy || !copy)
        return kymo_err_set(err, -ENOMEM, "member \"%s\": out of memory", name);
    if (n)
        memcpy(copy, data, n);
    w->members[w->count++] = (struct packed_member){KYMO_TAKE(name_copy), KYMO_TAKE(copy), n};
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct packed_member *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static la_ssize_t append_output(struct archive *a, void *ctx, const void *data, size_t n)
{
    int r = kymo_buf_append(ctx, data, n);
    if (r < 0) {
        archive_set_error(a, -r, "%s", r == -ENOMEM ? "out of memory" : "the archive is too large");
        return -1;
    }
    return (la_ssize_t)n;
}

static int archive_error(struct archive *a, const char *what, struct kymo_err *err)
{
    const char *text = archive_error_string(a);
    return kymo_err_set(err, archive_errno(a) == ENOMEM ? -ENOMEM : -EIO, "%s: %s", what, text ? text : "failed");
}

static bool has_foreign_name(const struct neff_writer *w)
{
    for (size_t i = 0; i < w->count; i++)
        for (const char *p = w->members[i].name; *p; p++)
            if ((unsigned char)*p >= 0x80)
                return true;
    return false;
}

/* Bytes must depend on the members alone: no time stamps, no user of this host, names as they are whatever the locale.
 */
static int configure(const struct neff_writer *w, struct archive *a, bool gzip, struct kymo_buf *out,
                     struct kymo_err *err)
{
    if (archive_write_set_format_pax_restricted(a) != ARCHIVE_OK)
        return archive_error(a, "cannot write tar", err);
    /* The switch costs an extended header for every member, so it is set only where a name needs it. */
    if (has_foreign_name(w) && archive_write_set_format_option(a, "pax", "hdrcharset", "BINARY") != ARCHIVE_OK)
        return archive_error(a, "cannot write tar", err);
    if (gzip && (archive_write_add_filter_gzip(a) != ARCHIVE_OK ||
                 archive_write_set_filter_option(a, "gzip", "compression-level", "1") != ARCHIVE_OK ||
                 archive_write_set_filter_option(a, "gzip", "timestamp", NULL) != ARCHIVE_OK))
        return archive_error(a, "cannot write gzip", err);
    if (archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
        archive_write_open(a, out, NULL, append_output, NULL) != ARCHIVE_OK)
        return archive_error(a, "cannot begin the archive", err);
    return 0;
}

static int pack_member(struct archive *a, struct archive_entry *e, const struct packed_member *m, struct kymo_err *err)
{
    (void)archive_entry_clear(e);
    archive_entry_set_pathname(e, m->name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, MEMBER_MODE);
    archive_entry_set_uid(e, OWNER_ID);
    archive_entry_set_gid(e, OWNER_ID);
    archive_entry_set_uname(e, OWNER);
    archive_entry_set_gname(e, OWNER);
    archive_entry_set_mtime(e, 0, 0);
    archive_entry_set_size(e, (la_int64_t)m->size);
    if (archive_write_header(a, e) != ARCHIVE_OK)
        return archive_error(a, m->name, err);
    for (size_t done = 0; done < m->size;) {
        la_ssize_t put = archive_write_data(a, m->data + done, m->size - done);
        if (put <= 0)
            return archive_error(a, m->name, err);
        done += (size_t)put;
    }
    return 0;
}

static int pack_members(const struct neff_writer *w, struct archive *a, bool gzip, struct kymo_buf *out,
                        struct kymo_err *err)
{
    int r = configure(w, a, gzip, out, err);
    if (r < 0)
        return r;
    struct archive_entry *e = archive_entry_new();
    if (!e)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < w->count && r == 0; i++)
        r = pack_member(a, e, &w->members[i], err);
    archive_entry_free(e);
    if (r < 0)
        return r;
    return archive_write_close(a) == ARCHIVE_OK ? 0 : archive_error(a, "cannot end the archive", err);
}

static int pack(const struct neff_writer *w, bool gzip, struct kymo_buf *out, struct kymo_err *err)
{
    struct archive *a = archive_write_new();
    if (!a)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int r = pack_members(w, a, gzip, out, err);
    /* After a failure libarchive would try to finish the archive; it must not touch the buffer any more. */
    if (r < 0)
        (void)archive_write_fail(a);
    (void)archive_write_free(a);
    return r;
}

static int fill_header(const struct neff_header *header, struct kymo_buf *file, struct kymo_err *err)
{
    struct neff_header h = *header;
    const uint8_t *data = file->data + NEFF_HEADER_SIZE;
    h.header_size = NEFF_HEADER_SIZE;
    h.data_size = file->len - NEFF_HEADER_SIZE;
    memset(h.hash, 0, sizeof h.hash);
    int r = h.pkg_version == 1 ? kymo_hash_sha256(data, h.data_size, h.hash) : kymo_hash_md5(data, h.data_size, h.hash);
    if (r < 0)
        return kymo_err_set(err, r, "cannot hash the archive");
    neff_header_encode(&h, file->data);
    return 0;
}

int neff_writer_write(struct neff_writer *w, const struct neff_header *header, const char *path, struct kymo_err *err)
{
    if (header->pkg_version != 1 && header->pkg_version != 2)
        return kymo_err_set(err, -EINVAL, "%s: pkg_version %llu is neither 1 nor 2", path,
                            (unsigned long long)header->pkg_version);
    if (w->count)
        qsort(w->members, w->count, sizeof *w->members, by_name);
    static const uint8_t room[NEFF_HEADER_SIZE];
    struct kymo_buf file;
    kymo_buf_init(&file, NEFF_TOTAL_MAX);
    int r = kymo_buf_append(&file, room, sizeof room);
    if (r < 0)
        r = kymo_err_set(err, r, "%s: out of memory", path);
    if (r == 0)
        r = pack(w, header->pkg_version == 2, &file, err);
    if (r == 0)
        r = fill_header(header, &file, err);
    if (r == 0)
        r = kymo_file_check_target(path, NULL, 0, err);
    if (r == 0)
        r = kymo_file_write_atomic(path, file.data, file.len, err);
    kymo_buf_done(&file);
    return r;
}
