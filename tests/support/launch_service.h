/* SPDX-License-Identifier: MIT */
#pragma once

/* Emulates a socket unit with Accept=yes: starts a kiln-launch in a new directory for each
 * connection, as the service manager does. */
#include <sys/types.h>

struct launch_service {
    char path[108];
    char directory[96];
    pid_t pid;
};

/* Makes the socket in |directory|. Runs |launcher| with the argument |program| for each
 * connection. Without |program| (NULL), |launcher| gets no argument. */
void launch_service_start(struct launch_service *service, const char *directory,
                          const char *launcher, const char *program);
/* Stops the service and kills all processes of its units, as `systemctl stop` does. */
void launch_service_end_units(struct launch_service *service);
void launch_service_stop(struct launch_service *service);
