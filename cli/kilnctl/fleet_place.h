/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The tree that a command of kilnctl works on: a directory, or a URL of an S3 store.
 *
 * Role       starts kiln-transfer for a URL, because kilnctl has no code for networks
 * Ownership  owns the descriptor of the directory, or the process
 * Threading  main thread
 */
#include "cli/fail.h"
#include "engine/fleet/fleet_directory.h"
#include "engine/transfer/fleet_remote.h"

#include <sys/types.h>

struct fleet_place {
    struct fleet_store *store; /* points into this struct */
    /* The store honours If-Match, so a compaction notices if another compaction has changed a file
     * in the meantime. Only set for a URL. */
    bool has_conditions;
    bool is_remote;
    struct fleet_directory directory;
    struct fleet_remote remote;
    pid_t pid;
};

/* Opens the directory or URL |word|. Creates the directory if it does not exist. |ret_place| must
 * not be copied afterwards, because |store| points into it. */
CLI_MUST_CHECK int fleet_place_open(const char *word, struct fleet_place *ret_place,
                                    struct kiln_error *err);
void fleet_place_close(struct fleet_place *place);
