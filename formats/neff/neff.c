#include "formats/neff/neff.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "formats/neff/neff_header.h"
#include "formats/neff/neff_internal.h"

#define NOTE_TEXT_MAX 512

_Static_assert(sizeof(size_t) >= sizeof(uint64_t), "sizes of members are 64-bit");

const char *neff_error_name(enum neff_error e)
{
    static const char *const names[] = {
#define X(id, name) name,
        NEFF_ERROR_MAP(X)
#undef X
    };
    return (unsigned)e < NEFF_ERROR_MAX ? names[e] : NULL;
}

int(neff_refuse)(struct neff_load *l, enum neff_error cls, int code, const char *fmt, ...)
{
    char text[KYMO_ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    l->cls = cls;
    return kymo_err_set(l->err, code, "%s: %s", l->n->path, text);
}

int neff_no_memory(struct neff_load *l)
{
    return neff_refuse(l, NEFF_ERROR_IO, -ENOMEM, "out of memory");
}

void neff_add_note(struct neff *n, const char *fmt, ...)
{
    char text[NOTE_TEXT_MAX];
    if (n->note_count == NEFF_NOTES_MAX)
        return;
    if (n->note_count == NEFF_NOTES_MAX - 1) {
        n->notes[n->note_count++] = "there are more notes than these";
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *kept = neff_intern(n, text);
    if (kept)
        n->notes[n->note_count++] = kept;
}

const char *neff_intern(struct neff *n, const char *text)
{
    struct neff_name *name = neff_arena_name(&n->arena, text);
    return name ? name->text : NULL;
}

struct neff *neff_free(struct neff *n)
{
    if (!n)
        return NULL;
    neff_archive_free(n);
    neff_arena_done(&n->arena);
    kymo_free(n->file);
    kymo_free(n->path);
    kymo_free(n);
    return NULL;
}

void neff_freep(struct neff **n)
{
    *n = neff_free(*n);
}

static int check_hash(struct neff_load *l, const uint8_t *data, size_t n)
{
    uint8_t got[KYMO_SHA256_SIZE];
    struct neff *neff = l->n;
    bool sha = neff->header.pkg_version == 1;
    int r = sha ? kymo_hash_sha256(data, n, got) : kymo_hash_md5(data, n, got);
    if (r < 0)
        return neff_refuse(l, NEFF_ERROR_IO, r, "cannot hash the data");
    neff->hash_kind = sha ? NEFF_HASH_SHA256 : NEFF_HASH_MD5;
    neff->hash_matches = !memcmp(got, neff->header.hash, sha ? KYMO_SHA256_SIZE : KYMO_MD5_SIZE);
    if (!neff->hash_matches)
        neff_add_note(neff, "the hash in the header does not fit the data: the file was damaged or changed");
    return 0;
}

/* data: the first NEFF_HEADER_SIZE bytes, or all of them, of a file of n. */
static int load_header(struct neff_load *l, const uint8_t *data, size_t n)
{
    int r = neff_header_decode(data, n, &l->n->header, &l->cls, l->err);
    if (r < 0) {
        kymo_err_prefix(l->err, "%s", l->n->path);
        return r;
    }
    uint64_t size = l->n->header.data_size, there = n - NEFF_HEADER_SIZE;
    if (size > there)
        return neff_refuse(l, NEFF_ERROR_DATA_TRUNCATED, -EPROTO,
                           "offset %zu: the file is truncated: the header claims %llu bytes of data and %llu follow", n,
                           (unsigned long long)size, (unsigned long long)there);
    return 0;
}

static void drop_file(struct neff *n)
{
    kymo_free(n->file);
    n->file = NULL;
}

static int load(struct neff_load *l, const uint8_t *data, size_t n, unsigned flags)
{
    struct neff *neff = l->n;
    if (kymo_hash_sha256(data, n, neff->sha256) < 0)
        return neff_refuse(l, NEFF_ERROR_IO, -EIO, "cannot hash the file");
    int r = load_header(l, data, n);
    if (r < 0)
        return r;
    const uint8_t *archive = data + NEFF_HEADER_SIZE;
    size_t behind = n - NEFF_HEADER_SIZE - (size_t)neff->header.data_size;
    if (behind)
        neff_add_note(neff, "%zu bytes follow the data and are not part of it", behind);
    r = check_hash(l, archive, (size_t)neff->header.data_size);
    if (r == 0)
        r = neff_archive_load(l, archive, (size_t)neff->header.data_size, neff->file != NULL);
    /* Members of a gzip archive have memory of their own: the packed bytes have served. */
    if (neff->gzip && !l->left)
        drop_file(neff);
    if (r == 0)
        r = neff_json_load(l);
    if (r == 0 && !(flags & NEFF_NO_DEBUG))
        r = neff_debug_load(l);
    if (neff->gzip)
        drop_file(neff);
    return r;
}

/* The header comes first: a foreign file of many gigabytes is not read to be refused. */
static int peek_header(struct neff_load *l, const char *path)
{
    uint8_t head[NEFF_HEADER_SIZE];
    uint64_t size;
    l->cls = NEFF_ERROR_IO;
    int fd KYMO_CLOSE = kymo_file_open_regular(path, &size, l->err);
    if (fd < 0)
        return fd;
    size_t n = size < sizeof head ? (size_t)size : sizeof head;
    int r = kymo_file_pread_all(fd, head, n, 0, path, l->err);
    if (r < 0)
        return r;
    l->cls = NEFF_ERROR_NONE;
    return load_header(l, head, (size_t)size);
}

static int read_file(struct neff_load *l, const char *path, size_t *ret_n)
{
    int r = peek_header(l, path);
    if (r < 0)
        return r;
    r = kymo_file_read_all(path, NEFF_TOTAL_MAX, &l->n->file, ret_n, l->err);
    if (r < 0)
        l->cls = r == -EFBIG ? NEFF_ERROR_LIMIT : NEFF_ERROR_IO;
    return r;
}

int neff_open_classified(const char *name, const void *data, size_t n, unsigned flags, struct neff **ret,
                         enum neff_error *ret_class, struct kymo_err *err)
{
    *ret_class = NEFF_ERROR_IO;
    struct neff *neff KYMO_CLEANUP(neff_freep) = KYMO_NEW(struct neff);
    if (!neff || !(neff->path = kymo_strdup(name)))
        return kymo_err_set(err, -ENOMEM, "%s: out of memory", name);
    neff->mac_count = -1;
    struct neff_load l = {.n = neff, .err = err};
    int r = data ? 0 : read_file(&l, name, &n);
    if (r == 0)
        r = load(&l, data ? data : neff->file, n, flags);
    *ret_class = l.cls;
    if (r < 0)
        return r;
    *ret = KYMO_TAKE(neff);
    return 0;
}

int neff_open(const char *path, unsigned flags, struct neff **ret, struct kymo_err *err)
{
    enum neff_error ignored;
    return neff_open_classified(path, NULL, 0, flags, ret, &ignored, err);
}

int neff_open_memory(const void *data, size_t n, const char *name, unsigned flags, struct neff **ret,
                     struct kymo_err *err)
{
    enum neff_error ignored;
    return neff_open_classified(name, data ? data : "", data ? n : 0, flags, ret, &ignored, err);
}

const char *neff_path(const struct neff *n)
{
    return n->path;
}

const struct neff_header *neff_get_header(const struct neff *n)
{
    return &n->header;
}

enum neff_hash_kind neff_hash_kind(const struct neff *n)
{
    return n->hash_kind;
}

bool neff_hash_matches(const struct neff *n)
{
    return n->hash_matches;
}

const uint8_t *neff_file_sha256(const struct neff *n)
{
    return n->sha256;
}

bool neff_is_gzip(const struct neff *n)
{
    return n->gzip;
}

size_t neff_member_count(const struct neff *n)
{
    return n->member_count;
}

const struct neff_member *neff_member(const struct neff *n, size_t i)
{
    return i < n->member_count ? &n->members[i] : NULL;
}

static int compare_name(const void *key, const void *member)
{
    return strcmp(key, ((const struct neff_member *)member)->name);
}

const struct neff_member *neff_find_member(const struct neff *n, const char *name)
{
    return n->member_count ? bsearch(name, n->members, n->member_count, sizeof *n->members, compare_name) : NULL;
}

const char *neff_kelf_name(const struct neff *n)
{
    return n->kelf;
}

const char *neff_target(const struct neff *n)
{
    return n->target;
}

const char *neff_compiler_version(const struct neff *n)
{
    return n->compiler_version;
}

int64_t neff_mac_count(const struct neff *n)
{
    return n->mac_count;
}

size_t neff_subgraph_count(const struct neff *n)
{
    return n->subgraph_count;
}

const struct neff_subgraph *neff_subgraph(const struct neff *n, size_t i)
{
    return i < n->subgraph_count ? &n->subgraphs[i] : NULL;
}

const struct neff_subgraph *neff_subgraph_of_pcore(const struct neff *n, unsigned pcore_idx)
{
    for (size_t i = 0; i < n->subgraph_count; i++)
        if (n->subgraphs[i].pcore_idx == pcore_idx)
            return &n->subgraphs[i];
    return NULL;
}

const struct neff_debug *neff_debug_of(const struct neff *n, const struct neff_subgraph *sg, enum kymo_engine engine,
                                       size_t compiler_pc)
{
    if (!n->debug || (unsigned)engine >= KYMO_ENGINE_MAX)
        return NULL;
    const struct neff_debug_stream *s = &n->debug[sg - n->subgraphs].engine[engine];
    if (compiler_pc >= s->count || s->index[compiler_pc] == 0)
        return NULL;
    return &s->records[s->index[compiler_pc] - 1];
}

bool neff_has_debug(const struct neff *n)
{
    return n->has_debug;
}

const struct neff_frames *neff_get_frames(const struct neff *n)
{
    return &n->frames;
}

const struct neff_kernels *neff_kernels_of(const struct neff *n, const struct neff_subgraph *sg)
{
    return n->debug ? n->debug[sg - n->subgraphs].kernels : NULL;
}

size_t neff_note_count(const struct neff *n)
{
    return n->note_count;
}

const char *neff_note(const struct neff *n, size_t i)
{
    return i < n->note_count ? n->notes[i] : NULL;
}
