/*
 * Both ends of the control socket against hostile peers: the first byte chooses the end and the size of pieces, the
 * rest is a row of frames (fuzz_session.h). What comes through holds its bounds and packs again.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "proto/control.h"
#include "proto/session.h"
#include "tests/fuzz/fuzz_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

static int on_message(void *ctx, const struct wire_message *m, const struct frame *f, struct kymo_err *err)
{
    (void)ctx;
    (void)err;
    must(wire_check(&control_protocol, m->pb, NULL) == 0);
    must(f->raw_len == 0 && f->message_len <= CONTROL_MESSAGE_MAX);
    struct kymo_buf again;
    kymo_buf_init(&again, 2 * CONTROL_MESSAGE_MAX);
    int r = wire_append(&control_protocol, &again, m->type, m->pb, NULL, NULL, NULL);
    must(r == 0 || r == -EMSGSIZE);
    kymo_buf_done(&again);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const struct session_config config = {.protocol = &control_protocol,
                                          .side = data[0] & 1 ? WIRE_SERVER : WIRE_CLIENT,
                                          .versions = {1, 2},
                                          .on_message = on_message};
    struct session *s;
    must(session_new(&config, &s, NULL) == 0);
    struct kymo_buf stream;
    kymo_buf_init(&stream, 4u << 20);
    static const uint8_t hello[] = {WIRE_HELLO, 4, 0, 0, 0, 0, 0x08, 1, 0x10, 1};
    if (data[0] & 2)
        fuzz_session_frames(hello, sizeof hello, &stream);
    fuzz_session_frames(data + 1, size - 1, &stream);
    size_t piece = (size_t)(data[0] >> 2) * 40 + 1;
    int r = 0;
    for (size_t at = 0; at < stream.len && r == 0; at += piece) {
        r = session_feed(s, stream.data + at, stream.len - at < piece ? stream.len - at : piece, NULL);
        must(session_waiting(s) <= SESSION_OUT_MAX);
        must((r < 0) == session_has_failed(s));
    }
    kymo_buf_done(&stream);
    session_free(s);
    return 0;
}
