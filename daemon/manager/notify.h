/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tells the service manager how we do: one datagram a message to $NOTIFY_SOCKET (sd_notify(3)),
 * nothing where that is not set.
 *
 * Threading  the main thread
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes what it asks for from the environment, so that compilers do not speak in our name; call it
 * before any starts. */
void notify_adopt(void);
/* Whether anybody is told. */
bool notify_is_on(void);
/* How often it must be told WATCHDOG=1, by WATCHDOG_USEC and WATCHDOG_PID; 0: never. */
uint64_t notify_watchdog_ms(void);
/* By FDSTORE: how many descriptors it keeps for us; -1 when it does not say. */
int notify_store_size(void);

enum notify_urgency {
    NOTIFY_MAY_BE_LOST, /* said again soon: never waits for a manager that is busy */
    NOTIFY_MUST_ARRIVE  /* waits some seconds */
};
#define NOTIFY_FILES_MAX 8

struct notify_files { /* borrowed descriptors that go along */
    const int *fds;
    size_t count; /* NOTIFY_FILES_MAX at most */
};

/* "READY=1"; several lines are allowed.  |files| may be NULL.  False when it could not be sent,
 * which was said in the log; true where nobody wants to hear. */
bool notify_manager(const char *state, const struct notify_files *files,
                    enum notify_urgency urgency);
