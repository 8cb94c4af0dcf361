/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The content of struct package_service, for this directory and its tests only.
 *
 * Threading  the engine's thread
 */
#include "engine/service/packages/packages.h"

struct package_service {
    struct request_group uploads;
    char *directory;     /* owned, as are the three below; "": there is none */
    char *staging;       /* directory in |directory| in which uploads arrive; "": there is none */
    char *trusted_keys;  /* directory of public keys */
    char *kfd_directory; /* the directory in which the operating system's kernel describes the
                            GPUs */
    uint64_t package_limit;
    uint64_t import_limit; /* limit of the size of a user's cache, bytes */
    uint64_t rescan_at_ns;
    bool is_rescanning; /* the package directories are being rescanned */
    bool require_signature;
};
