/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Splits a byte stream into frames.
 *
 * Role       returns whole frames in place.  Copies only the beginning of an unfinished frame, and
 *            the bytes passed to inbox_keep
 * Ownership  owns the unfinished frame, whose memory grows with the bytes received, not with the
 *            size in the header.  This memory and kept bytes are charged to the account
 * Threading  the loop's thread
 */
#include "common/protocol/frame.h"
#include "daemon/server/account.h"

#include <sys/uio.h>

struct inbox {
    struct account *account;
    uint8_t *data; /* owned; NULL between frames */
    size_t size;
    size_t capacity;
    size_t wanted; /* size of the current frame; FRAME_HEADER_SIZE until its header is complete */
    struct frame_header header;
    bool is_returned; /* |data| contains the body that the last inbox_next returned */
    uint8_t *kept;    /* owned; may be NULL */
    size_t kept_size;
    struct bytes left; /* the part of |kept| that inbox_next has not used yet */
};

void inbox_init(struct inbox *inbox, struct account *account);
void inbox_done(struct inbox *inbox);
bool inbox_is_partial(const struct inbox *inbox);

/* Fills |iov| for the next read and returns the number of buffers, 1 or 2.  If a frame is
 * unfinished, the first buffer receives its rest, so that large bodies are not copied twice.  The
 * last buffer is |scratch|. */
int inbox_buffers(struct inbox *inbox, struct bytes scratch, struct iovec iov[2]);
/* Call it after |received| bytes were read into the buffers of inbox_buffers.  Returns the bytes
 * that are in |scratch|. */
struct bytes inbox_received(struct inbox *inbox, struct bytes scratch, size_t received);
/* Stores |rest|, the received bytes that inbox_next has not used yet. inbox_kept returns them.
 * Drops bytes that were stored before.  Returns KILN_BUSY if the user holds too many bytes. */
KILN_MUST_CHECK enum kiln_code inbox_keep(struct inbox *inbox, struct bytes rest,
                                          struct kiln_err *err);
static inline struct bytes inbox_kept(const struct inbox *inbox) { return inbox->left; }
/*
 * Returns the next frame and removes its bytes from |from|.  The body is valid until the next call.
 *   KILN_NOT_FOUND  there is no whole frame yet; all of |from| was consumed
 *   KILN_INVALID    not a frame, or beyond a limit: the stream is lost
 *   KILN_BUSY       the user holds too many bytes
 * For the last two codes, |ret_header| has the request id if that could be read.
 */
KILN_MUST_CHECK enum kiln_code inbox_next(struct inbox *inbox, struct bytes *from,
                                          struct frame_header *ret_header, struct bytes *ret_body,
                                          struct kiln_err *err);
