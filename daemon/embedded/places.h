/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where the engine in a job's process keeps what, and finds what: folders of the user's own, beside
 * those of a kilnd that the user may start.
 *
 * Threading  pure functions of environment and filesystem; may block
 */
#include "common/embedded_entry.h"
#include "common/paths.h"

#include <sys/un.h>

struct embedded_places {
    bool memory;                  /* no folder can be used, or is to be */
    char why[EMBEDDED_TEXT_MOST]; /* it cannot */
    char cache[PATH_TEXT_MOST];   /* these three: only without |memory| */
    char state[PATH_TEXT_MOST];
    char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char compiler[PATH_TEXT_MOST]; /* "": there is none, |no_compiler| says why */
    char no_compiler[EMBEDDED_TEXT_MOST];
    char transfer[PATH_TEXT_MOST]; /* kiln-transfer, installed or not */
    char keeper[PATH_TEXT_MOST];   /* kiln-launch, which keeps both, installed or not */
    char temp[PATH_TEXT_MOST];     /* for compilers */
    char trusted_keys[PATH_TEXT_MOST];
};

/* Makes the folders, where the environment may be trusted and nobody else can swap them. */
void embedded_places_find(const struct embedded_options *options,
                          struct embedded_places *ret_places);
