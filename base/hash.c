#include "base/hash.h"

#include <errno.h>
#include <openssl/evp.h>

#include "base/alloc.h"
#include "base/file.h"

#define FILE_STEP ((size_t)256 << 10)

static int digest(const EVP_MD *md, const void *data, size_t n, uint8_t *ret)
{
    /* A host in FIPS mode has no MD5; the caller can then go on without the check. */
    return EVP_Digest(data, n, ret, NULL, md, NULL) == 1 ? 0 : -EOPNOTSUPP;
}

int kymo_hash_sha256(const void *data, size_t n, uint8_t ret[KYMO_SHA256_SIZE])
{
    return digest(EVP_sha256(), data, n, ret);
}

int kymo_hash_md5(const void *data, size_t n, uint8_t ret[KYMO_MD5_SIZE])
{
    return digest(EVP_md5(), data, n, ret);
}

struct kymo_sha256 {
    EVP_MD_CTX *ctx;
};

struct kymo_sha256 *kymo_sha256_new(void)
{
    struct kymo_sha256 *s KYMO_CLEANUP(kymo_sha256_freep) = KYMO_NEW(struct kymo_sha256);
    if (!s || !(s->ctx = EVP_MD_CTX_new()) || EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL) != 1)
        return NULL;
    return KYMO_TAKE(s);
}

int kymo_sha256_add(struct kymo_sha256 *s, const void *data, size_t n)
{
    return EVP_DigestUpdate(s->ctx, data, n) == 1 ? 0 : -EIO;
}

int kymo_sha256_end(struct kymo_sha256 *s, uint8_t ret[KYMO_SHA256_SIZE])
{
    return EVP_DigestFinal_ex(s->ctx, ret, NULL) == 1 ? 0 : -EIO;
}

void kymo_sha256_freep(struct kymo_sha256 **s)
{
    if (*s)
        EVP_MD_CTX_free((*s)->ctx);
    kymo_free(*s);
    *s = NULL;
}

static int update_from_file(struct kymo_sha256 *s, int fd, uint64_t size, const char *path, struct kymo_err *err)
{
    uint8_t *buf KYMO_FREE = kymo_malloc(FILE_STEP);
    if (!buf)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory", path);
    for (uint64_t off = 0; off < size;) {
        size_t step = size - off < FILE_STEP ? (size_t)(size - off) : FILE_STEP;
        int r = kymo_file_pread_all(fd, buf, step, off, path, err);
        if (r < 0)
            return r;
        if (kymo_sha256_add(s, buf, step) < 0)
            return kymo_err_set(err, -EIO, "%s: the digest failed at offset %llu", path, (unsigned long long)off);
        off += step;
    }
    return 0;
}

int kymo_hash_sha256_file(const char *path, uint8_t ret[KYMO_SHA256_SIZE], struct kymo_err *err)
{
    uint64_t size;
    int fd KYMO_CLOSE = kymo_file_open_regular(path, &size, err);
    if (fd < 0)
        return fd;
    struct kymo_sha256 *s KYMO_CLEANUP(kymo_sha256_freep) = kymo_sha256_new();
    if (!s)
        return kymo_err_set(err, -ENOMEM, "%s: cannot begin a digest", path);
    int r = update_from_file(s, fd, size, path, err);
    if (r < 0)
        return r;
    return kymo_sha256_end(s, ret) < 0 ? kymo_err_set(err, -EIO, "%s: the digest failed", path) : 0;
}

void kymo_hash_hex(const uint8_t *data, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        *out++ = digits[data[i] >> 4];
        *out++ = digits[data[i] & 15];
    }
    *out = '\0';
}
