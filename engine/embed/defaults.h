/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The limits of a program with the engine linked in.  The limits are equal to the defaults of
 * kilnd's settings (daemon/config/config.def), which the engine must not include.  A test compares
 * both (unit.daemon.embedded_defaults).
 */
#include <stdint.h>

#define DEFAULT_TUNING_RECORDS 100000
#define DEFAULT_TUNING_BYTES ((uint64_t)64 << 20)
#define DEFAULT_PACKAGE_LIMIT ((uint64_t)8 << 30)
#define DEFAULT_HOT_BYTES ((uint64_t)512 << 20)
#define DEFAULT_HOT_COUNT 8192
#define DEFAULT_FAILURE_TTL_S 600
#define DEFAULT_QUEUE 100000
#define DEFAULT_QUEUE_UID 20000
#define DEFAULT_QUEUE_BYTES ((uint64_t)1 << 30)
#define DEFAULT_QUEUE_BYTES_UID ((uint64_t)256 << 20)
/* The setting worker_jobs. */
#define DEFAULT_JOBS_MAX 200
#define DEFAULT_JOBS_TEXT "200"
#define DEFAULT_COMPILE_MS 300000u /* the setting compile_timeout */
/* The settings compile_cpu, compile_memory and compile_output. */
#define DEFAULT_LIMITS_TEXT "600,4294967296,67108864"
