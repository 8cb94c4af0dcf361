/* SPDX-License-Identifier: MIT */
#pragma once

/* A flight's compile: queued, shared, sealed, delivered; stored afterwards, or its failure
 * remembered. */
#include "engine/service/kernels/flight.h"

/* Queues the compile of the flight's source. */
KILN_MUST_CHECK enum kiln_code flight_submit(struct flight *f, struct kiln_err *err);
/* However it was asked for, a kernel is compiled once: joins the flight that compiles it already,
 * or submits.  |f| may be gone when this returns. */
void flight_compile_or_join(struct flight *f);
/* |ticket| waits for what is under way; another user's turn counts as well. */
void flight_join_queue(struct flight *f, struct fetch_ticket *ticket);
