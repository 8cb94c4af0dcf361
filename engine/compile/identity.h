/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A toolchain's identity: the SHA-256 over the build ids of all files that determine the
 * toolchain's output.
 *
 * Role       Two hosts, or one host before and after an upgrade, have the same toolchain if and
 *            only if the identities are equal.  A file without a build id is hashed completely
 * Ownership  plain value
 * Threading  one thread
 */
#include "common/base/err.h"
#include "engine/digest/sha256.h"

struct identity {
    struct sha256 sum;
    size_t files;
};

void identity_init(struct identity *id, const char *toolchain, const char *version);
KILN_MUST_CHECK enum kiln_code identity_put_file(struct identity *id, const char *path,
                                                 struct kiln_err *err);
/* Adds loaded libraries whose file name starts with one of |prefixes| (NULL-terminated), sorted by
 * name. */
KILN_MUST_CHECK enum kiln_code identity_put_loaded(struct identity *id, const char *const *prefixes,
                                                   struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code identity_put_needed(struct identity *id, const char *path,
                                                   const char *const *prefixes,
                                                   struct kiln_err *err);
struct digest identity_end(struct identity *id);
/* Returns the digest by which libkiln-rtc identifies NVRTC and hiprtc. It covers the build ids of
 * the library |path| and of the loaded libraries whose file name begins with one of |parts|.
 * Returns zeros if no such library is loaded, or if a file has no build id or cannot be read. */
struct digest identity_of_build_ids(const char *path, const char *const *parts);
