/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Limits of uploads. An upload is a request that sends a package, a cache or a tuning file to
 * kilnd. The engine refuses uploads beyond the limit (engine/service/packages/uploads.c).  Each
 * upload has at most one transfer at a time: one kiln-transfer process (daemon/workers/transfer.c).
 */
#define UPLOADS_MAX 16u
/* How many of the UPLOADS_MAX uploads are reserved for administrators, so that users' imports
 * cannot block the installation of packages. */
#define UPLOADS_FOR_ADMINS 4u
/* The limit for a user who is not an administrator. */
#define UPLOADS_MAX_UID 2u
/* The maximum number of a user's transfer processes that were killed (SIGKILL) but have not ended
 * yet. If a user has that many, the user's next transfer is refused. */
#define TRANSFERS_STUCK_MAX_UID 2u
