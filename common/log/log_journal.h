/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * journald's native protocol: one datagram per record, or a sealed memfd for a large record.
 *
 * Ownership  the caller owns the descriptor
 * Threading  any thread
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

KILN_MUST_CHECK enum kiln_code journal_open(const char *path, int *ret_fd, struct kiln_err *err);
/* Never blocks on a stalled journald. */
bool journal_send(int fd, struct bytes record);
/* Returns whether |fd| is the journal's stream.  |variable| is the value of JOURNAL_STREAM, which
 * identifies the stream as "device:inode", or NULL if it is not set. */
bool journal_is_stream(const char *variable, int fd);
