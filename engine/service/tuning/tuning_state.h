/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The content of struct tuning_service, for this directory and its tests only.
 *
 * Threading  the engine's thread
 */
#include "engine/service/tuning/tuning_queue.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/service/tuning/tuning_validation.h"
#include "engine/service/tuning/tuning_watch.h"

struct tuning_service {
    struct tuning *databases; /* owned; NULL: not open, for the reason in |trouble| */
    struct tuning_options options;
    /* the valid database that the latest look-up of each kind (find, perf) named */
    struct tuning_database asked[2];
    char trouble[512];
    char notice[512];
    uint64_t retry_ns;
    bool is_opening;
    struct request_queue queue;
    struct lease_table *leases;
    struct tuning_watches watches;
};
