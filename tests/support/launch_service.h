/* SPDX-License-Identifier: MIT */
#pragma once

/* Emulates a socket unit with Accept=yes: runs kiln-launch in a new directory for each
 * connection, as systemd does. */
#include <sys/types.h>

struct launch_service {
    char path[108];
    char directory[96];
    pid_t pid;
};

/* Listens on a socket in |directory|. Runs |launcher| for each connection, with the argument
 * |program| unless that is NULL. */
void launch_service_start(struct launch_service *service, const char *directory,
                          const char *launcher, const char *program);
/* Kills the service and all processes that it started, as `systemctl stop` does. */
void launch_service_end_units(struct launch_service *service);
void launch_service_stop(struct launch_service *service);
