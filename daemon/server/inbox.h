/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Frames out of a byte stream.
 *
 * Role       cuts what was received into frames; whole frames are handed out where they lie, only
 *            the beginning of an unfinished one is copied and kept
 * Ownership  owns the unfinished frame, at most header and LIMIT_FRAME_BODY; its memory grows with
 *            what arrived, not with what the header promises, and is charged to the account
 * Threading  the loop's thread
 */
#include "common/frame.h"
#include "daemon/server/account.h"

#include <sys/uio.h>

struct inbox {
    struct account *account; /* borrowed */
    uint8_t *data;           /* owned; NULL between frames */
    size_t size;
    size_t capacity;
    size_t wanted; /* of the frame in hand; FRAME_HEADER_SIZE until its header is here */
    struct frame_header header;
    bool handed_out; /* data is the body that the last inbox_next returned */
};

void inbox_init(struct inbox *inbox, struct account *account);
/* Accepts a zeroed inbox. */
void inbox_done(struct inbox *inbox);
/* True while a frame has begun and not ended. */
bool inbox_is_partial(const struct inbox *inbox);

/* Where to receive to: room for the rest of the frame in hand, so that big bodies are not copied
 * twice, then |scratch|.  Returns how many of |iov| are used. */
int inbox_room(struct inbox *inbox, struct bytes scratch, struct iovec iov[2]);
/* |received| bytes came into that room; returns those of them that lie in |scratch|. */
struct bytes inbox_received(struct inbox *inbox, struct bytes scratch, size_t received);
/* The next frame, taking from |from| what it needs.  The body is valid until the next call.
 *   KILN_NOT_FOUND  no whole frame yet; all of |from| was taken
 *   KILN_INVALID    not a frame, or beyond a limit: the stream is lost
 *   KILN_BUSY       the user holds too many bytes
 * With the last two |ret_header| has the request's id where that could be read. */
KILN_MUST_CHECK enum kiln_code inbox_next(struct inbox *inbox, struct bytes *from,
                                          struct frame_header *ret_header, struct bytes *ret_body,
                                          struct kiln_err *err);
