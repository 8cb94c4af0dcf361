/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Loads and saves the usage accounting (accounting.h).
 *
 * Role       reads the rows once after the start, then writes changed rows, at most once in ten
 *            seconds. While the store cannot be read or written, the rows stay in memory
 * Threading  the engine's thread; reading and writing are tasks
 */
#include "engine/service/internal.h"

void accounting_load(struct engine *e);
/* If |force| is not set, writes only when a write is due. */
void accounting_write(struct engine *e, bool force);
