/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Shards of records that replace each other: the tuning records of a host, and traces of jobs.
 *
 * Role       a kernel's record is final, because its key determines the kernel. A host's tuning
 *            records change, so a claim in such a shard names a series, and the newest record of a
 *            builder's series replaces the older ones. The key is the digest of the object
 * Ownership  texts are borrowed
 * Threading  pure functions
 */
#include "engine/fleet/fleet_claim.h"

/* The toolchain of a shard of tuning records. */
#define FLEET_TUNING "kiln-tuning-1"
/* The toolchain of a shard of a job's traces. */
#define FLEET_TRACES "kiln-trace-1"
/* Maximum number of series in a shard. A compaction leaves out the oldest ones beyond this. */
#define FLEET_SERIES_MAX 1024u

bool fleet_shard_has_series(const struct fleet_shard *shard);
/* Returns the shard with this name, which is a database id (FLEET_TUNING) or the name of a job
 * (FLEET_TRACES). */
struct fleet_shard fleet_shard_named(struct bytes target, const char *toolchain, struct bytes name);
/* Orders claims by builder and series (which the claim's |options| names), and those of one series
 * by time, the newest first. */
int fleet_series_compare(const struct fleet_claim *a, const struct fleet_claim *b);
/* Returns the claim's time for this order. A time of more than a day after |now| counts as older
 * than all others, because nothing could replace such a record before that time. */
uint64_t fleet_series_time(const struct fleet_claim *claim, uint64_t now);
bool fleet_series_equal(const struct fleet_claim *a, const struct fleet_claim *b);
