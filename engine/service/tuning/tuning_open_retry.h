/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Opens the tuning databases at the start, and tries again later if the disk did not allow it.
 *
 * Threading  the engine's thread; a later try runs on WORK_QUEUE_TUNING
 */
#include "engine/service/internal.h"

struct tuning_service;

/* Returns KILN_OK if the databases are open, or if a later try may open them; service->trouble then
 * says why they are not open yet. */
KILN_MUST_CHECK enum kiln_code tuning_open_first(struct tuning_service *service,
                                                 struct kiln_err *err);
void tuning_open_retry_tick(struct engine *e);
