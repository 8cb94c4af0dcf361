/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads requests for kernels from their frames, and checks them.
 *
 * Role       a kernel is requested by its key, by its source, or by MIOpen's name; a batch may mix
 *            all three
 * Ownership  an input borrows its options from |storage|, and everything else from the frame
 * Threading  the engine's thread
 */
#include "engine/service/requests/results.h"
#include "engine/store/kernel_name.h"

struct fetch_input {
    struct result_options result;
    enum priority priority;
    struct fetch_options fetch; /* its pointers point into this struct */
    struct target target;       /* only for an item with a source */
    struct compile_job job;
    struct kernel_name name;
    struct digest shared_key;
    bool is_rtc;
    struct kiln_err err;
};

/* These functions read one request. The caller zeroes |ret_input|, except its |err|, which must
 * be KILN_ERR_INIT. A failure concerns only this item, and is also stored in |ret_input|->err. For
 * a source, KILN_BUSY with |ret_input|->err unset means that the toolchain is not known yet. */
enum kiln_code fetch_input_read_key(struct bytes body, struct fetch_input *ret_input);
/* |storage| must have space for 2 * LIMIT_OPTIONS_TEXT bytes, for the canonical options. */
enum kiln_code fetch_input_read_source(struct engine *e, struct bytes body, struct buffer *storage,
                                       struct fetch_input *ret_input);
enum kiln_code fetch_input_read_program(struct engine *e, struct bytes body,
                                        struct fetch_input *ret_input);
/* The fetch will search the caller's imports, then those for all users, then packages. */
enum kiln_code fetch_input_read_name(uid_t uid, struct bytes body, struct fetch_input *ret_input);
enum kiln_code fetch_input_read_next(struct engine *e, uid_t uid, struct reader *items,
                                     struct buffer *storage, struct fetch_input *ret_input);

/* These functions implement struct toolchain_need.ask. If asking fails for a source, the error
 * in d->err becomes the result of its item. */
enum kiln_code fetch_input_ask_for_source(struct deferred *d);
enum kiln_code fetch_input_ask_for_program(struct deferred *d);
/* Returns KILN_INVALID if the batch has too many new targets, or not as many items as it states. */
enum kiln_code fetch_input_ask_for_batch(struct deferred *d);
