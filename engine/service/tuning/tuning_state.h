/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The inside of struct tuning_service: for this directory and its tests alone.
 */
#include "engine/service/tuning/tuning_queue.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/service/tuning/tuning_validation.h"

struct tuning_service {
    struct tuning *databases;        /* owned; NULL: could not be opened, |trouble| says why */
    struct tuning_options options;   /* its directory is owned */
    struct tuning_database asked[2]; /* of find and perf: which the latest look-up was in */
    char trouble[512];
    char notice[512];  /* what opening them found; "" when nothing */
    uint64_t retry_ns; /* when to try again to open them */
    bool is_opening;   /* a try is under way */
    struct tuning_queue queue;
    struct lease_table *leases; /* owned */
};
