/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * journald, spoken to natively: a datagram a record, a sealed memfd where that is too large.
 *
 * Threading  any thread
 */
#include "common/bytes.h"
#include "common/err.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

/* A socket that journal_send takes; KILN_UNAVAILABLE or what the system says when nobody listens at
 * |path|. */
KILN_MUST_CHECK enum kiln_code journal_open(const char *path, int *ret_fd, struct kiln_err *err);
/* False when it was not taken.  Does not wait for a journald that reads nothing. */
bool journal_send(int fd, struct bytes record);
/* Whether |variable| (JOURNAL_STREAM, "device:inode"; may be NULL) names what |fd| is. */
bool journal_is_stream(const char *variable, int fd);
