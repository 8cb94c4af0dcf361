/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Takes the tuning records of other hosts from the fleet's tree into the records of this host.
 *
 * Role       reads the index of each device's records once a minute. If the pointer has changed, or
 *            the trusted keys have, reads all records of the device again, and merges them into the
 *            host tier (tuning_job_restate). No look-up waits for this
 * Ownership  the fleet tier owns the struct
 * Threading  the engine's thread; records are verified on WORK_QUEUE_READ, and merged on
 *            WORK_QUEUE_TUNING
 */
#include "engine/service/internal.h"

/* Limits for one device. The fleet's records beyond them are left out. */
#define FLEET_RECORDS_BYTES_MAX (32u << 20) /* of packs, and also of unpacked blocks */
#define FLEET_RECORDS_MAX 65536u
#define FLEET_RECORDS_PACKS_MAX 8u
/* Maximum number of devices. */
#define FLEET_DEVICES_MAX 16u

struct fleet_records;

void fleet_records_destroy(struct fleet_records *records);
/* Takes the records of this device from now on, as of this host's GPUs. Does nothing if
 * |database_id| is not an id, if the device is known, or if the fleet has records of too many
 * devices. */
void fleet_records_want(struct engine *e, const char *database_id);
void fleet_records_tick(struct engine *e, uint64_t now_ns);
/* Returns a JSON array with the devices. |records| may be NULL. */
struct json *fleet_records_describe(const struct fleet_records *records);
