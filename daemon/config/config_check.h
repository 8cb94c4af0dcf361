/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks of kilnd's settings against the host: users, directories and the fleet's key.
 *
 * Role       refuses for --check-config, and for a reload, what a start would refuse
 * Ownership  plain values
 * Threading  any thread; may block (the user database, files)
 */
#include "daemon/config/config.h"
#include "daemon/workers/worker_user.h"

struct config_users {
    struct worker_user compilers, transfers;
};

KILN_MUST_CHECK enum kiln_code config_find_users(const struct config *config,
                                                 struct config_users *ret_users,
                                                 struct kiln_err *err);
/* The caller must be the user that runs kilnd. */
KILN_MUST_CHECK enum kiln_code config_check(const struct config *config, struct kiln_err *err);
