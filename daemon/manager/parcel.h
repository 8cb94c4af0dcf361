/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Thousands of descriptors held as two: they wait inside a pair of connected sockets, with an index
 * that says what they are.
 *
 * Role       a service manager compares every descriptor that it is given with each it has, so it
 *            is given these two (decision 12)
 * Ownership  packing copies the descriptors; the ends and what comes out are the caller's
 * Threading  none of its own; nothing blocks
 */
#include "common/bytes.h"
#include "common/err.h"

/* What the queue of a socket has room for, by far. */
#define PARCEL_FILES_MOST 32768u

/* |ret_ends|: whoever holds both keeps all of it; the first is read. */
KILN_MUST_CHECK enum kiln_code parcel_pack(struct bytes index, const int *fds, size_t count,
                                           int ret_ends[2], struct kiln_err *err);

struct parcel {
    struct buffer index; /* owned */
    int *fds;            /* owned array of owned descriptors; -1: taken */
    size_t count;
};
/* Takes out all that |end| has, which is empty afterwards.  KILN_NOT_FOUND without a sentence for
 * the other end and for an empty one; KILN_DENIED for a pair that another user made. */
KILN_MUST_CHECK enum kiln_code parcel_unpack(int end, struct parcel *ret_parcel,
                                             struct kiln_err *err);
/* Closes what was not taken.  Accepts a zeroed one. */
void parcel_done(struct parcel *parcel);
#define PARCEL_AUTO __attribute__((cleanup(parcel_done)))
