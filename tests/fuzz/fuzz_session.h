/* Input of the fuzz targets of protocols: a row of frames, so that mutations reach the messages behind the checksum. */
#ifndef KYMO_TESTS_FUZZ_SESSION_H
#define KYMO_TESTS_FUZZ_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * Each record of data: type (1 byte; its upper bit becomes FRAME_MAY_SKIP), lengths of message and raw (2 bytes each),
 * flags (1 byte), the bytes. What is cut off at the end is as short as it is. out becomes the stream of frames.
 */
void fuzz_session_frames(const uint8_t *data, size_t size, struct kymo_buf *out);

#endif
