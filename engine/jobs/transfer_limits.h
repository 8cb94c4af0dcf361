/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An upload is a request that brings a package, a cache or a tuning file.  The engine refuses
 * uploads beyond the limit (engine/service/packages/uploads.c).  Each upload has at most one
 * transfer at a time: one kiln-transfer process (daemon/workers/transfer.c).
 */
#define UPLOADS_MAX 16u
/* Reserved for administrators, so that users' imports cannot block the installation of packages. */
#define UPLOADS_FOR_ADMINS 4u
/* The limit for a user who is not an administrator. */
#define UPLOADS_MAX_UID 2u
/* A user's further transfers are refused while this many of the user's transfer processes have not
 * ended after SIGKILL. */
#define TRANSFERS_STUCK_MAX_UID 2u
