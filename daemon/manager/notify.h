/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Notifies the service manager: one datagram to $NOTIFY_SOCKET for each message (sd_notify(3)),
 * nothing if that is not set.
 *
 * Threading  the main thread
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes the notify variables from the environment, so that compilers cannot send in kilnd's
 * name.  Call it before any compiler starts. */
void notify_adopt(void);
/* True if a service manager listens. */
bool notify_is_on(void);
/* The interval of WATCHDOG=1, from WATCHDOG_USEC and WATCHDOG_PID; 0: never. */
uint64_t notify_watchdog_ms(void);
/* The size of the manager's descriptor store, from FDSTORE; -1 if unknown. */
int notify_store_size(void);

enum notify_urgency {
    NOTIFY_MAY_BE_LOST, /* repeated soon: never waits for a busy manager */
    NOTIFY_MUST_ARRIVE  /* waits some seconds */
};
#define NOTIFY_FILES_MAX 8

struct notify_files { /* borrowed descriptors that go along */
    const int *fds;
    size_t count; /* NOTIFY_FILES_MAX at most */
};

/* Sends |state|, for example "READY=1"; several lines are allowed.  |files| may be NULL.
 * Returns false, after logging, when it could not be sent; true if no manager listens. */
bool notify_manager(const char *state, const struct notify_files *files,
                    enum notify_urgency urgency);
