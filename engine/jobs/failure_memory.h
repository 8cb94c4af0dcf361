/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Failures remembered: what a compile that cannot succeed said, for a while.
 *
 * Role       answers the next asker of a key at once, with the same sentence and log.  A key
 *            covers the toolchain's identity, so an upgraded compiler is tried afresh.
 * Ownership  keeps copies; what find returns is borrowed until the next call
 * Threading  the engine's thread
 *
 * Bounded: the oldest of FAILURES_MAX is forgotten first; of a log the first 8 KiB are kept.
 */
#include "common/cleanup.h"
#include "common/digest.h"
#include "common/err.h"

#define FAILURES_MAX 4096

struct failure_memory;

struct failure {
    struct kiln_err err;
    const char *log; /* "" when there was none */
};

KILN_MUST_CHECK enum kiln_code failure_memory_create(unsigned ttl_s,
                                                     struct failure_memory **ret_memory,
                                                     struct kiln_err *err);
void failure_memory_destroy(struct failure_memory *memory);
KILN_DEFINE_AUTO(failure_memory)

/* For those that are remembered, too. */
void failure_memory_set_ttl(struct failure_memory *memory, unsigned ttl_s);
/* Remembers until |now_ns| + ttl; out of memory forgets (it would only be tried again).  |log| may
 * be NULL.  A ttl of 0 remembers nothing. */
void failure_memory_add(struct failure_memory *memory, const struct digest *key,
                        const struct kiln_err *failure, const char *log, uint64_t now_ns);
/* False when nothing is known or it has expired. */
bool failure_memory_find(struct failure_memory *memory, const struct digest *key, uint64_t now_ns,
                         struct failure *ret_failure);
void failure_memory_clear(struct failure_memory *memory);
unsigned failure_memory_count(const struct failure_memory *memory);
