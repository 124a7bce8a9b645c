/*
 * The frames between kymo-collector and kymo-query --serve (SERVE.md). Pure: bytes in, bytes out. Shared by both sides,
 * neither of which trusts the other.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_FRAME_H
#define KYMO_COLLECTOR_QUERY_SERVE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SERVE_FRAME_HEAD 9
#define SERVE_REQUEST_MAX (1u << 20)
#define SERVE_LEFT_OUT_MAX 1024 /* bytes of HEAD's left_out */
#define SERVE_DATA_MAX (64u << 10)
#define SERVE_WINDOW (256u << 10) /* bytes of DATA that an id begins with */

/* X(name, number, greatest payload, least payload) */
#define SERVE_FRAMES(X)                                                                                                \
    X(REQUEST, 1, SERVE_REQUEST_MAX, 2)                                                                                \
    X(HEAD, 2, SERVE_DATA_MAX, 2)                                                                                      \
    X(DATA, 3, SERVE_DATA_MAX, 1)                                                                                      \
    X(END, 4, SERVE_DATA_MAX, 2)                                                                                       \
    X(CANCEL, 5, 0, 0)                                                                                                 \
    X(CREDIT, 6, 4, 4)

enum serve_frame_type {
#define X(name, number, most, least) SERVE_##name = (number),
    SERVE_FRAMES(X)
#undef X
};

struct serve_frame {
    enum serve_frame_type type;
    uint32_t id;
    const uint8_t *payload; /* inside the bytes that were parsed */
    size_t n;
};

/*
 * The frame at the begin of n bytes. Returns its whole length, 0 when more bytes are needed, or -EPROTO: an unknown
 * type or a length that the type does not have.
 */
long serve_frame_parse(const void *data, size_t n, struct serve_frame *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Writes the head of a frame whose payload of n bytes follows. */
void serve_frame_head(uint8_t out[static SERVE_FRAME_HEAD], enum serve_frame_type type, uint32_t id, size_t n);
/* The payload of a CREDIT frame. */
uint32_t serve_frame_credit(const struct serve_frame *f);

#endif
