/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/daemon_process.h"

struct host {
    struct daemon_process daemon;
    struct program_result result;
};

/* any uid except the overflow uid, for which kilnd keeps no private data */
#define OTHER_USER 45001

/* Skips the test unless it runs as root, which can act as another user. */
void need_root(void);
/* Like admit_all_users. Also makes later programs run as user |uid|. Skips the test if that user
 * cannot run them, for example because the checkout is in a private home directory. */
void run_programs_as(struct daemon_process *daemon, uid_t uid);
bool become_other_user(void);
