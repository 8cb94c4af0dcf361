/* SPDX-License-Identifier: MIT */
#pragma once

/* What the files of this folder share: the storage of handles as libuv sees it. */
#include "daemon/loop/loop.h"

#include <uv.h>

struct loop {
    uv_loop_t uv;
};

#define LOOP_UV(type, handle) ((type *)(void *)(handle)->uv)
#define LOOP_HANDLE_FITS(type)                                                     \
    _Static_assert(sizeof(type) <= LOOP_HANDLE_ROOM, "LOOP_HANDLE_ROOM too small " \
                                                     "for " #type)

/* Right after uv_X_init: from now on the handle counts. */
void loop_handle_opened(struct loop_handle *handle, struct loop_owner *owner, void *self);
/* Accepts a handle that is closed, closing or was never opened. */
void loop_handle_close(struct loop_handle *handle);
/* The code for a libuv status, which is a negated errno on this platform. */
enum kiln_code loop_fail(struct kiln_err *err, int status, const char *what);
