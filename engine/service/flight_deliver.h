/* SPDX-License-Identifier: MIT */
#pragma once

/* A flight's end: every ticket gets the result, and the flight is gone when the call returns. */
#include "engine/service/flight.h"

/* What the flight looked up or compiled, under the key that was asked for; it becomes hot. */
void flight_deliver_object(struct flight *f, enum tier tier);
/* A package's row does not say what it was made of: it answers those who ask by the name. */
void flight_deliver_packaged(struct flight *f);
/* |log| may be NULL. */
void flight_deliver_failure(struct flight *f, const struct kiln_err *err, const char *log);

/* What somebody imported for himself is not there for others, also where they know its key. */
bool flight_may_have(const struct object *object, uid_t uid);
/* Into the counters, and the kernel's use. */
void flight_count_result(struct engine *e, const struct fetch_result *r);
