/* SPDX-License-Identifier: MIT */
#pragma once

/* A flight's compile: queued, shared, sealed, delivered; stored afterwards, or its failure
 * remembered. */
#include "engine/service/kernels/inflight.h"

/* Queues the compile of the flight's source. */
KILN_MUST_CHECK enum kiln_code inflight_submit(struct inflight *f, struct kiln_err *err);
/* However it was asked for, a kernel is compiled once: joins the flight that compiles it already,
 * or submits.  |f| may be gone when this returns. */
void inflight_compile_or_join(struct inflight *f);
/* |ticket| waits for what is under way; another user's turn counts as well. */
void inflight_join_queue(struct inflight *f, struct fetch_ticket *ticket);
