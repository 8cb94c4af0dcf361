/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Loads and saves the usage accounting (accounting.h).
 *
 * Role       read once after start, then written in batches, about as often as recency.  While the
 *            store cannot be read or written, the rows stay in memory and the task is retried
 * Threading  the engine's thread; reading and writing are tasks
 */
#include "engine/service/internal.h"

void accounting_load(struct engine *e);
/* Writes changed rows if a write is due. With |force|, writes them in any case. */
void accounting_write(struct engine *e, bool force);
