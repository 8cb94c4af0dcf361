/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Emulates a socket unit with Accept=yes: starts a kiln-launch in a new directory for each
 * connection, as the service manager does.
 *
 * Ownership  launch_service_stop ends the service; the processes that it started end with their
 *            connections
 */
#include <sys/types.h>

struct launch_service {
    char path[108]; /* path of the socket */
    char directory[96];
    pid_t pid;
};

/* Makes the socket in |directory|, which must exist. For each connection, runs |launcher| with
 * |program| as its argument; NULL means no argument. */
void launch_service_start(struct launch_service *service, const char *directory,
                          const char *launcher, const char *program);
/* Stops the service and kills all processes of its units, as `systemctl stop` does. */
void launch_service_end_units(struct launch_service *service);
void launch_service_stop(struct launch_service *service);
