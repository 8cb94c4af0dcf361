/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compiles that clients do with their own compiler (the requests compile_begin and compile_end).
 *
 * Role       stores the results under the keys that clients compute. Lets one connection do the
 *            compile of a key while other connections of the same user wait for the result
 * Ownership  a compile belongs to the connection that may do it, until compile_end or until the
 *            connection ends
 * Threading  the engine's thread
 *
 * kilnd cannot check the result of such a compile, so kilnd serves the result only to the user who
 * sent it: the key in the store contains the uid.
 */
#include "engine/service/internal.h"

struct client_compiles;

KILN_MUST_CHECK enum kiln_code client_compiles_create(struct client_compiles **ret_compiles,
                                                      struct kiln_err *err);
/* No compile may be unfinished. */
void client_compiles_destroy(struct client_compiles *compiles);

/* Call this function when |caller| leaves. Each compile that |caller| may do passes to the next
 * connection that waits for its result. */
void client_compiles_leave(struct engine *e, struct caller *caller);
/* If the answer to request |request_id| told |caller| to do a compile, passes this compile to the
 * next connection that waits for its result. */
void client_compiles_cancel(struct engine *e, struct caller *caller, uint64_t request_id);
void client_compiles_tick(struct engine *e);
void client_compiles_drain(struct engine *e);
