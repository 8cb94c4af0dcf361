/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Frames: the layout of messages on the socket (docs/protocol.md).
 *
 *   offset size
 *        0    4  magic 'K' 'I' 'L' 'N'
 *        4    2  protocol version of the sender (FRAME_VERSION)
 *        6    2  type: a number of common/protocol/messages.def
 *        8    8  request id, chosen by the client and repeated in every reply
 *       16    4  body length in bytes, at most LIMIT_FRAME_BODY
 *       20    2  descriptors that come with the frame's first byte (SCM_RIGHTS)
 *       22    2  flags (FRAME_MORE, FRAME_STOPPING)
 *
 * Threading  plain values
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "common/protocol/limits.h"

#define FRAME_HEADER_SIZE 24
#define FRAME_MAGIC 0x4e4c494bu /* "KILN", little-endian */
#define FRAME_VERSION 1         /* the newest version that this code supports */
#define FRAME_VERSION_OLDEST 1  /* the oldest version that this code supports */

#define FRAME_MORE 1u     /* another frame with the same request id follows (streamed replies) */
#define FRAME_STOPPING 2u /* kilnd is stopping: it answers pending requests and reads no more */

struct frame_header {
    uint16_t version;
    uint16_t type;
    uint64_t request_id;
    uint32_t body_size;
    uint16_t descriptors;
    uint16_t flags;
};

void frame_header_write(uint8_t raw[FRAME_HEADER_SIZE], const struct frame_header *h);
/* Reads a header.  Returns KILN_INVALID, with the bad value in the message, for a wrong magic, an
 * oversized body or too many descriptors.  Does not check the version: the handshake does that,
 * with a better message. */
KILN_MUST_CHECK enum kiln_code frame_header_read(const uint8_t raw[FRAME_HEADER_SIZE],
                                                 struct frame_header *ret_header,
                                                 struct kiln_err *err);
