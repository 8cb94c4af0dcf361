/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes the fleet's records from tuning records of the host.
 *
 * Ownership  plain values; texts are borrowed
 * Threading  any thread; only one thread at a time uses a codec
 */
#include "common/miopen/device_database_id.h"
#include "engine/fleet/fleet_record.h"
#include "engine/fleet/fleet_series.h"

#define FLEET_SERIES_SIZE 17
/* Writes the name of this host's series: 16 digits. They come from a random number in the state
 * directory, which this function makes if there is none, and from the host's name. So two hosts
 * have different names even if one has a copy of the other's directory. */
KILN_MUST_CHECK enum kiln_code fleet_tuning_series(const char *state_directory,
                                                   char series[FLEET_SERIES_SIZE],
                                                   struct kiln_err *err);

struct fleet_tuning_shard {
    char target[DATABASE_ID_MAX]; /* the device's processor */
    struct fleet_shard shard;     /* its target is |target|, so do not copy the struct */
};
/* Sets the shard of the records of a device. Returns false if |database_id| is not an id. */
bool fleet_tuning_shard_of(const char *database_id, struct fleet_tuning_shard *ret_shard);

struct fleet_tuning_claim {
    const char *database_id, *series;
    uint64_t time; /* seconds since 1970 */
};
/* Appends the unsigned record of |block|, which tuning_share_add has filled. */
KILN_MUST_CHECK enum kiln_code fleet_tuning_record(struct codec *codec,
                                                   const struct fleet_tuning_claim *what,
                                                   struct bytes block, struct buffer *ret_records,
                                                   struct kiln_err *err);
