/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Starts kiln-transfer, with which kilnctl then talks over a socket.
 *
 * Ownership  the caller owns the socket, and waits for the process
 * Threading  main thread
 */
#include "cli/fail.h"

#include <sys/types.h>

/* Starts the program at the other end of |ret_socket|. */
CLI_MUST_CHECK int transfer_start(const char *program, char *const argv[], int *ret_socket,
                                  pid_t *ret_pid, struct kiln_error *err);
