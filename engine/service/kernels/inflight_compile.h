/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compiles the kernel of an in-flight request: queues the compile, shares it with later requests,
 * seals the object and delivers it. Then the kernel or its failure is stored.
 *
 * Threading  the engine's thread
 */
#include "engine/service/kernels/inflight.h"

KILN_MUST_CHECK enum kiln_code inflight_submit(struct inflight *f, struct kiln_err *err);
/* If another in-flight request already compiles the kernel, |f| joins this other request. May free
 * |f|. */
void inflight_compile_or_join(struct inflight *f);
/* Adds |ticket| to |f|. A compile that is still queued is then also queued for the ticket's user
 * (compile_queue_share). */
void inflight_join_queue(struct inflight *f, struct fetch_ticket *ticket);
