/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A toolchain's identity: SHA-256 over the build ids of everything that decides its output.
 *
 * Role       two hosts, or one before and after an upgrade, have the same toolchain exactly when
 *            this is the same; a file without a build id counts with its whole content
 * Ownership  plain value
 * Threading  one thread
 */
#include "common/err.h"
#include "engine/digest/sha256.h"

struct identity {
    struct sha256 sum;
    size_t files; /* put so far */
};

void identity_init(struct identity *id, const char *toolchain, const char *version);
KILN_MUST_CHECK enum kiln_code identity_put_file(struct identity *id, const char *path,
                                                 struct kiln_err *err);
/* Every library of this process whose file name starts with one of |prefixes|
 * (NULL-terminated), in the order of their names. */
KILN_MUST_CHECK enum kiln_code identity_put_loaded(struct identity *id, const char *const *prefixes,
                                                   struct kiln_err *err);
/* Of the shared libraries that the program |path| would load, those with such names. */
KILN_MUST_CHECK enum kiln_code identity_put_needed(struct identity *id, const char *path,
                                                   const char *const *prefixes,
                                                   struct kiln_err *err);
struct digest identity_end(struct identity *id);
