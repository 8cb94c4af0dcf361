/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compiles the kernel of an in-flight request: queues the compile, shares it with later requests,
 * seals the object and delivers it. The kernel is then stored, or its failure is remembered.
 *
 * Threading  the engine's thread
 */
#include "engine/service/kernels/inflight.h"

/* Queues the compile of the in-flight request's source. */
KILN_MUST_CHECK enum kiln_code inflight_submit(struct inflight *f, struct kiln_err *err);
/* Compiles each kernel once, by key or by name: joins the in-flight request that compiles it
 * already, or submits |f|. |f| may have been freed when this returns. */
void inflight_compile_or_join(struct inflight *f);
/* Lets |ticket| wait for |f|. If |f| still waits for a compiler, it moves to the ticket's user if
 * fewer orders wait before it there. */
void inflight_join_queue(struct inflight *f, struct fetch_ticket *ticket);
