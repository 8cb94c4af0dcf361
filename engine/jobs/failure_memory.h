/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compile failures, remembered for a while so that the same compile is not repeated.
 *
 * Role       answers the next request for the same key with the same message and log.  A failure
 *            may be due to how one user's compile ran, for example if it exceeded a limit.  Such a
 *            failure is reported to that user only, until the compile fails for a second user, too
 * Ownership  keeps copies; failure_memory_find's result is borrowed until the next call
 * Threading  the engine's thread
 *
 * Stores at most FAILURES_MAX entries, and drops the oldest first.  Only the first 8 KiB of a log
 * are stored.
 */
#include "common/base/cleanup.h"
#include "common/base/digest.h"
#include "common/base/err.h"

#include <sys/types.h>

#define FAILURES_MAX 4096

struct failure_memory;

struct failure {
    struct kiln_err err;
    const char *log;
};

struct failure_report {
    const struct digest *key;
    uid_t uid;
    bool is_for_all; /* the failure is due to the source, not to how this user's compile ran */
    const char *log; /* may be NULL */
    struct kiln_err err;
};

KILN_MUST_CHECK enum kiln_code failure_memory_create(unsigned ttl_s,
                                                     struct failure_memory **ret_memory,
                                                     struct kiln_err *err);
void failure_memory_destroy(struct failure_memory *memory);
KILN_DEFINE_AUTO(failure_memory)

void failure_memory_set_ttl(struct failure_memory *memory, unsigned ttl_s);
/* Does nothing if the lifetime is 0 or memory runs out; a later request then repeats the
 * compile. */
void failure_memory_add(struct failure_memory *memory, const struct failure_report *report,
                        uint64_t now_ns);
/* Returns false if there is no failure for |uid|, or if it has expired. */
bool failure_memory_find(struct failure_memory *memory, const struct digest *key, uid_t uid,
                         uint64_t now_ns, struct failure *ret_failure);
void failure_memory_clear(struct failure_memory *memory);
unsigned failure_memory_count(const struct failure_memory *memory);
