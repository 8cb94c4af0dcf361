/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How many uploads and transfers there may be: all limits of their number, in one place.
 *
 * An upload is a request that brings a package, a cache or a tuning file; the engine refuses those
 * beyond the limit (engine/service/packages/uploads.c).  Each has at most one transfer at a time,
 * which waits for one of a few kiln-transfer processes (daemon/workers/transfer.c).
 */
#define UPLOADS_MAX 16u
/* Of those, only for administrators: users' imports must not keep packages out. */
#define UPLOADS_FOR_ADMINS 4u
/* Of one user who is no administrator. */
#define UPLOADS_MAX_UID 2u
/* Processes: more would share one line to the same server. */
#define TRANSFERS_AT_ONCE 3u
/* Of those, only for administrators. */
#define TRANSFERS_FOR_ADMINS 1u
/* Processes of one user that do not die of SIGKILL; that user's next transfers are refused. */
#define TRANSFERS_STUCK_MAX_UID 2u
