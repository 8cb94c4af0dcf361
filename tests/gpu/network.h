/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The convolutions of a network, for programs that run them as a job does.
 *
 * Role       reads MIOpenDriver command lines, and launches their problems.  All problems share
 *            their tensors and the workspace, which have the size of the largest one
 * Ownership  network_done frees the memory and closes the device, which the caller opened
 * Threading  one thread
 */
#include <kiln/kiln.h>

#define NETWORK_MAX 512u

struct network {
    struct kiln_problem problems[NETWORK_MAX];
    unsigned count;
    struct kiln_device *device;
    struct kiln_memory *memories[4]; /* x, w, y and the workspace */
};

/* Reads the problems of the file |name|, of all directions.  Ends the process if it cannot. */
void network_read(struct network *network, const char *name);
/* Allocates the tensors of all problems, which otherwise the launches do. */
void network_allocate(struct network *network);
void network_launch(struct network *network, unsigned index, struct kiln_run *run,
                    uint64_t workspace);
void network_done(struct network *network);

/* Prints |err|, and ends the process with status 1. */
void network_die(const char *what, const struct kiln_error *err) __attribute__((noreturn));
/* Does the same if |rc| is a failure. */
void network_must(int rc, const char *what, const struct kiln_error *err);
