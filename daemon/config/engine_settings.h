/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * kilnd's settings as the engine's options.
 *
 * Ownership  borrows texts from the configuration, which must outlive the result. Do not move or
 *            copy the result: its options point into it
 * Threading  pure functions
 */
#include "daemon/config/config.h"
#include "engine/engine.h"

#define PACKAGE_DIRECTORIES_MAX 32

struct engine_settings {
    struct engine_options options;
    /* |options| points into these members. */
    char packages[PATH_TEXT_MAX + 16];
    char path[PATH_TEXT_MAX];
    const char *directories[PACKAGE_DIRECTORIES_MAX + 1];
};

/* Does not set executor, host and readers.  |hot_count| limits the descriptors of the hot set. */
void engine_settings_of(const struct config *config, unsigned hot_count,
                        struct engine_settings *ret_settings);
