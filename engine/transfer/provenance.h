/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a fetched file must match: the SHA-256 that the user gave, and the file's signed manifest.
 *
 * Ownership  a plain value
 * Threading  blocks
 */
#include "common/base/digest.h"
#include "engine/transfer/fetch.h"

struct provenance {
    bool has_sha256, has_manifest;
    struct digest sha256; /* given by the user */
    uint64_t size;        /* stated by the manifest */
    struct digest signed_sha256;
    char signer[64]; /* "" if unsigned */
};

struct provenance_source { /* borrowed */
    const struct transfer_job *job;
    /* The URL of the file; its manifest is next to it. NULL: a manifest can only come from
     * job->manifest_fd. */
    const struct url *url;
    const char *fetched_name;
    const struct fetch_policy *policy;
};
/* Finds the manifest, if there is one, and checks its signature. Appends the manifest to
 * |ret_manifest|. Returns KILN_DENIED if a required signature is missing or not valid. */
KILN_MUST_CHECK enum kiln_code provenance_find(const struct provenance_source *source,
                                               struct provenance *ret_provenance,
                                               struct buffer *ret_manifest, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code provenance_check(const struct provenance *provenance, uint64_t size,
                                                const struct digest *sha256, struct kiln_err *err);
