/* SPDX-License-Identifier: MIT */
#pragma once

/* Signs packages with the user's own key; see docs/decisions/0006-kilnctl-signs-packages-itself.md.
 *
 * Role       creates keys and signed manifests with functions of engine/manifest
 * Ownership  the caller frees returned texts
 * Threading  blocks */
#include "cli/fail.h"

#include <stdint.h>

#define SIGN_SUFFIX ".manifest"

struct sign_file {
    int fd;
    const char *name;
    uint64_t version;
};
/* If the file is compressed with bzip2, the manifest also has the digest of the uncompressed
 * content. */
CLI_MUST_CHECK int sign_manifest(const char *key_file, const struct sign_file *file,
                                 char **ret_text, struct kiln_error *err);
/* Checks the key in advance, so that a bad key does not waste hours of compilation. */
CLI_MUST_CHECK int sign_check_key(const char *key_file, struct kiln_error *err);
CLI_MUST_CHECK int sign_write_manifest(const char *path, const char *manifest,
                                       struct kiln_error *err);
/* Writes NAME.key and NAME.pub into |directory|. */
CLI_MUST_CHECK int sign_make_key(const char *directory, const char *name, struct kiln_error *err);
