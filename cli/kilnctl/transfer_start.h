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

/* Starts |program|. |ret_socket| receives this process's end of the socket, and |program| gets the
 * other end as descriptor 3. */
CLI_MUST_CHECK int transfer_start(const char *program, char *const argv[], int *ret_socket,
                                  pid_t *ret_pid, struct kiln_error *err);
