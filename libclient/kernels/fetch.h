/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Code that single fetches and batches share: looks in the in-process cache, turns kilnd's results
 * into kernels, and adds these to the cache.
 *
 * Ownership  the caller owns returned kernels
 * Threading  the caller's thread
 */
#include "libclient/client.h"
#include "libclient/kernels/kernel.h"
#include "libclient/kernels/source.h"

/* Returns KILN_INVALID unless |hex| has 64 hexadecimal digits. */
KILN_MUST_CHECK enum kiln_code fetch_key(const char *hex, struct digest *ret_key,
                                         struct kiln_err *err);

struct kiln_kernel *fetch_known_key(struct kiln_client *client, const struct digest *key);
struct kiln_kernel *fetch_known_source(struct kiln_client *client,
                                       const struct kiln_kernel_source *source);
/* Adds |kernel| to the in-process cache.  |source| is NULL after a fetch by key. */
void fetch_remember(struct kiln_client *client, const struct kiln_kernel_source *source,
                    struct kiln_kernel *kernel);

/* Reads one result of |reply|: a kernel, or a failure that kilnd reports.  Sets |ret_damaged| if
 * the call fails because the reply itself is invalid. */
KILN_MUST_CHECK enum kiln_code fetch_result(const struct message_result *result,
                                            const struct reply *reply,
                                            struct kiln_kernel **ret_kernel, bool *ret_damaged,
                                            struct failure *failure);
