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

static void context_freep(EVP_MD_CTX **ctx)
{
    EVP_MD_CTX_free(*ctx);
}

static int update_from_file(EVP_MD_CTX *ctx, int fd, uint64_t size, const char *path, struct kymo_err *err)
{
    uint8_t *buf KYMO_FREE = kymo_malloc(FILE_STEP);
    if (!buf)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory", path);
    for (uint64_t off = 0; off < size;) {
        size_t step = size - off < FILE_STEP ? (size_t)(size - off) : FILE_STEP;
        int r = kymo_file_pread_all(fd, buf, step, off, path, err);
        if (r < 0)
            return r;
        if (EVP_DigestUpdate(ctx, buf, step) != 1)
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
    EVP_MD_CTX *ctx KYMO_CLEANUP(context_freep) = EVP_MD_CTX_new();
    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
        return kymo_err_set(err, -ENOMEM, "%s: cannot begin a digest", path);
    int r = update_from_file(ctx, fd, size, path, err);
    if (r < 0)
        return r;
    if (EVP_DigestFinal_ex(ctx, ret, NULL) != 1)
        return kymo_err_set(err, -EIO, "%s: the digest failed", path);
    return 0;
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
