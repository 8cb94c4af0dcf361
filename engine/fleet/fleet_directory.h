/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A fleet's tree in a local directory, for a compaction (fleet_store.h). A file in a directory
 * cannot be replaced conditionally: if two compactions replace a pointer at the same time, the last
 * one wins.
 *
 * Ownership  borrows the descriptor of the root
 * Threading  as fleet_tree.h
 */
#include "engine/fleet/fleet_store.h"

struct fleet_directory {
    struct fleet_store store; /* first */
    int root;
};

struct fleet_directory fleet_directory_of(int root);
