/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An upload is a request that brings a package, a cache or a tuning file.  The engine refuses
 * uploads beyond the limit (engine/service/packages/uploads.c).  Each upload has at most one
 * transfer at a time: one kiln-transfer process (daemon/workers/transfer.c).
 */
#define UPLOADS_MAX 16u
/* This many of UPLOADS_MAX are reserved for administrators, so that users' imports cannot block the
 * installation of packages. */
#define UPLOADS_FOR_ADMINS 4u
/* The limit for a user who is not an administrator. */
#define UPLOADS_MAX_UID 2u
/* The maximum number of a user's transfer processes that were killed (SIGKILL) but have not ended
 * yet. While there are so many, further transfers of the user are refused. */
#define TRANSFERS_STUCK_MAX_UID 2u
