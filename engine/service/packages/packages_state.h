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
    char *directory; /* these four are owned; "": there is no directory */
    char *staging;   /* in |directory|; uploads arrive there */
    char *trusted_keys;
    char *kfd_directory;
    uint64_t package_limit;
    uint64_t import_limit;
    uint64_t rescan_at_ns;
    bool is_rescanning;
    bool require_signature;
};
