/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes the fleet's records from kernels in kernels.db.
 *
 * Role       used for 'kilnctl fleet push' and for uploads
 * Ownership  borrows everything
 * Threading  a thread of a work queue; only one thread at a time uses a codec
 */
#include "engine/fleet/fleet_record.h"
#include "engine/store/kernel_store.h"

/* Returns whether this kilnd compiled the kernel. Returns false for a kernel that a client
 * compiled, that was imported, or that came from a package or the fleet. */
bool fleet_kernel_is_own(const struct kernel_record *record);

struct fleet_recording {
    struct kernel_store *store;
    struct codec *codec;
    struct buffer *records; /* the record is appended, without a signature */
    /* Set by fleet_kernel_record. */
    bool is_written;
    bool is_damaged;  /* the stored object failed its check */
    bool is_left_out; /* a claim cannot describe the kernel (see fleet_claim_encode) */
};
/* Appends the record of a kernel. If the store has no such kernel, or if this kilnd did not compile
 * it, returns KILN_OK and appends nothing. */
KILN_MUST_CHECK enum kiln_code fleet_kernel_record(struct fleet_recording *recording,
                                                   const struct digest *key, struct kiln_err *err);
