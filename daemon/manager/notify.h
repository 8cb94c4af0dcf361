/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Notifies the service manager: sends one datagram to $NOTIFY_SOCKET for each message
 * (sd_notify(3)); does nothing if $NOTIFY_SOCKET is not set.
 *
 * Threading  the main thread
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes the notify variables from the environment, so that compilers cannot send messages as kilnd.
 * Call it before any compiler starts. */
void notify_adopt(void);
bool notify_is_on(void);
/* Returns how often to send WATCHDOG=1; 0 if the manager does not expect this message. */
uint64_t notify_watchdog_ms(void);
/* Returns how many descriptors the manager's store can hold; -1 if that is unknown. */
int notify_store_size(void);

enum notify_urgency {
    NOTIFY_MAY_BE_LOST, /* the message is repeated soon, so never wait for a busy manager */
    NOTIFY_MUST_ARRIVE  /* wait some seconds for a busy manager */
};
#define NOTIFY_FILES_MAX 8

struct notify_files { /* borrowed */
    const int *fds;
    size_t count;
};

/* Sends |state|, for example "READY=1"; several lines are allowed.  |files| may be NULL.  Returns
 * false, and logs the reason, if the message could not be sent. */
bool notify_manager(const char *state, const struct notify_files *files,
                    enum notify_urgency urgency);
