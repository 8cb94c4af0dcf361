/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The ledger on its way into the store and back.
 *
 * Role       read once after start, written in batches, about as often as recency; while the store
 *            cannot be read or written to it stays in memory and is tried again
 * Threading  the engine's thread; the reading and writing are tasks
 */
#include "engine/service/internal.h"

void ledger_load(struct engine *e);
/* Writes what has changed if that is due; |force| writes it anyway. */
void ledger_write(struct engine *e, bool force);
