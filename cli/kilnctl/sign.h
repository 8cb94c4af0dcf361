/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Signing packages with the user's own key; docs/decisions/0006-kilnctl-signs-packages-itself.md.
 *
 * Role       all that kilnctl knows of the engine: its manifests, as pure functions of files
 * Ownership  texts that come back are the caller's to free
 * Threading  blocks
 */
#include "cli/fail.h"

#define SIGN_SUFFIX ".manifest"

/* The manifest of one file, whose content is |fd| and which will be called |name|. */
CLI_MUST_CHECK int sign_manifest(const char *key_file, int fd, const char *name, char **ret_text,
                                 struct kiln_error *err);
/* Whether |key_file| can sign at all: known before hours of compiling, not after. */
CLI_MUST_CHECK int sign_check_key(const char *key_file, struct kiln_error *err);
/* "<path>.manifest", replaced where it is there. */
CLI_MUST_CHECK int sign_write_manifest(const char *path, const char *manifest,
                                       struct kiln_error *err);
/* Writes NAME.key and NAME.pub into |directory|. */
CLI_MUST_CHECK int sign_make_key(const char *directory, const char *name, struct kiln_error *err);
