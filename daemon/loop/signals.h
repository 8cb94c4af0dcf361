/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Signals, delivered as callbacks on the loop.
 *
 * Ownership  the caller embeds the struct; end with loop_signal_close
 * Threading  the loop's thread
 */
#include "daemon/loop/loop.h"

struct loop_signal {
    struct loop_handle handle;
    void (*received)(struct loop_signal *signal, int number); /* set by the caller before init */
};

KILN_MUST_CHECK enum kiln_code loop_signal_init(struct loop *loop, struct loop_signal *signal,
                                                struct loop_owner *owner, int number,
                                                struct kiln_err *err);
void loop_signal_close(struct loop_signal *signal);
