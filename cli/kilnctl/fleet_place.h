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

enum fleet_place_use {
    FLEET_PLACE_READ,
    FLEET_PLACE_ADD,    /* add files */
    FLEET_PLACE_CHANGE, /* replace or delete files; only one process at a time may do that */
};

struct fleet_place {
    struct fleet_store *store; /* points into this struct */
    /* For FLEET_PLACE_CHANGE: another process that changes the tree at the same time is noticed,
     * because the store honours If-Match, or because the directory is locked. */
    bool is_exclusive;
    bool is_remote;
    int lock; /* owned; -1: none */
    struct fleet_directory directory;
    struct fleet_remote remote;
    pid_t pid;
};

/* Opens the directory or URL |word|, but does not create it. |ret_place| must not be copied
 * afterwards, because |store| points into it. Returns KILN_E_BUSY if another process changes a
 * directory. */
CLI_MUST_CHECK int fleet_place_open(const char *word, enum fleet_place_use use,
                                    struct fleet_place *ret_place, struct kiln_error *err);
void fleet_place_close(struct fleet_place *place);
