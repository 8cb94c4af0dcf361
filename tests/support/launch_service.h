/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A socket unit with Accept=yes: each connection is given to a kiln-launch of its own, as the
 * service manager does it, in a directory of its own.
 *
 * Ownership  launch_service_stop ends it; what it started ends with its connections
 */
#include <sys/types.h>

struct launch_service {
    char path[108]; /* of its socket */
    char directory[96];
    pid_t pid;
};

/* Below |directory|, which has to be there.  |launcher| is run with |program| as its argument,
 * NULL: none. */
void launch_service_start(struct launch_service *service, const char *directory,
                          const char *launcher, const char *program);
/* As its administrator would: the service is gone, and each unit with all that is in it. */
void launch_service_end_units(struct launch_service *service);
void launch_service_stop(struct launch_service *service);
