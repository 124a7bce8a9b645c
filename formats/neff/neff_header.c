#include "formats/neff/neff_header.h"

#include <errno.h>
#include <string.h>

#include "base/le.h"

enum {
    AT_PKG_VERSION = 0x000,
    AT_HEADER_SIZE = 0x008,
    AT_DATA_SIZE = 0x010,
    AT_MAJOR = 0x018,
    AT_MINOR = 0x020,
    AT_BUILD = 0x028,
    AT_NUM_TPB = 0x0A8,
    AT_HASH = 0x0AC,
    AT_UUID = 0x0CC,
    AT_NAME = 0x0DC,
    AT_REQUESTED = 0x1DC,
    AT_PER_NODE = 0x1E0,
    AT_FEATURES = 0x220,
    AT_LNC = 0x228,
};

#define BUILD_SIZE 128
#define NAME_SIZE 256

_Static_assert(AT_BUILD + BUILD_SIZE == AT_NUM_TPB, "the build version fills its field");
_Static_assert(AT_NAME + NAME_SIZE == AT_REQUESTED, "the name fills its field");

static void put_text(uint8_t *out, size_t size, const char *text)
{
    size_t n = strnlen(text, size);
    memcpy(out, text, n);
}

void neff_header_encode(const struct neff_header *h, uint8_t out[NEFF_HEADER_SIZE])
{
    memset(out, 0, NEFF_HEADER_SIZE);
    kymo_put_le64(out + AT_PKG_VERSION, h->pkg_version);
    kymo_put_le64(out + AT_HEADER_SIZE, h->header_size);
    kymo_put_le64(out + AT_DATA_SIZE, h->data_size);
    kymo_put_le64(out + AT_MAJOR, h->version_major);
    kymo_put_le64(out + AT_MINOR, h->version_minor);
    put_text(out + AT_BUILD, BUILD_SIZE, h->build_version);
    kymo_put_le32(out + AT_NUM_TPB, h->num_tpb);
    memcpy(out + AT_HASH, h->hash, sizeof h->hash);
    memcpy(out + AT_UUID, h->uuid, sizeof h->uuid);
    put_text(out + AT_NAME, NAME_SIZE, h->name);
    kymo_put_le32(out + AT_REQUESTED, h->requested_tpb_count);
    memcpy(out + AT_PER_NODE, h->tpb_per_node, sizeof h->tpb_per_node);
    kymo_put_le64(out + AT_FEATURES, h->feature_bits);
    kymo_put_le32(out + AT_LNC, h->lnc_size);
}

static void get_text(char *out, const uint8_t *in, size_t size)
{
    memcpy(out, in, size);
    out[size] = '\0';
}

static void load(const uint8_t *in, struct neff_header *h)
{
    h->pkg_version = kymo_le64(in + AT_PKG_VERSION);
    h->header_size = kymo_le64(in + AT_HEADER_SIZE);
    h->data_size = kymo_le64(in + AT_DATA_SIZE);
    h->version_major = kymo_le64(in + AT_MAJOR);
    h->version_minor = kymo_le64(in + AT_MINOR);
    get_text(h->build_version, in + AT_BUILD, BUILD_SIZE);
    h->num_tpb = kymo_le32(in + AT_NUM_TPB);
    memcpy(h->hash, in + AT_HASH, sizeof h->hash);
    memcpy(h->uuid, in + AT_UUID, sizeof h->uuid);
    get_text(h->name, in + AT_NAME, NAME_SIZE);
    h->requested_tpb_count = kymo_le32(in + AT_REQUESTED);
    memcpy(h->tpb_per_node, in + AT_PER_NODE, sizeof h->tpb_per_node);
    h->feature_bits = kymo_le64(in + AT_FEATURES);
    h->lnc_size = kymo_le32(in + AT_LNC);
}

int neff_header_decode(const uint8_t *data, size_t n, struct neff_header *ret, enum neff_error *ret_class,
                       struct kymo_err *err)
{
    if (n == 0) {
        *ret_class = NEFF_ERROR_EMPTY;
        return kymo_err_set(err, -EPROTO, "the file has no bytes");
    }
    if (n < NEFF_HEADER_SIZE) {
        *ret_class = NEFF_ERROR_SHORT_HEADER;
        return kymo_err_set(err, -EPROTO, "offset %zu: the file ends inside the %d-byte header", n, NEFF_HEADER_SIZE);
    }
    struct neff_header h;
    load(data, &h);
    if (h.pkg_version != 1 && h.pkg_version != 2) {
        *ret_class = NEFF_ERROR_UNKNOWN_PKG_VERSION;
        return kymo_err_set(err, -EPROTO, "offset 0: pkg_version %llu is neither 1 nor 2",
                            (unsigned long long)h.pkg_version);
    }
    if (h.header_size != NEFF_HEADER_SIZE) {
        *ret_class = NEFF_ERROR_BAD_HEADER_SIZE;
        return kymo_err_set(err, -EPROTO, "offset %d: header_size %llu is not %d", AT_HEADER_SIZE,
                            (unsigned long long)h.header_size, NEFF_HEADER_SIZE);
    }
    *ret = h;
    return 0;
}

int neff_header_parse(const uint8_t *data, size_t n, struct neff_header *ret, struct kymo_err *err)
{
    enum neff_error ignored;
    return neff_header_decode(data, n, ret, &ignored, err);
}
