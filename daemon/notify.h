/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tells the service manager how we do: one datagram to $NOTIFY_SOCKET, nothing where that is not
 * set.
 *
 * Threading  the main thread
 */

/* "READY=1", "STOPPING=1"; several lines are allowed. */
void notify_manager(const char *state);
/* Forgets the variable, so that compilers do not speak in our name; call it before any starts. */
void notify_adopt(void);
