/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/daemon_process.h"

struct host {
    struct daemon_process daemon;
    struct program_result result;
};

/* uid of another user; not the overflow uid, because a user with that uid cannot have private
 * data */
#define OTHER_USER 45001

void need_root(void);
/* Lets all users connect, and runs later programs as user |uid|. Skips the test if |uid| cannot
 * run them, for example because the build is in a private home directory. */
void run_programs_as(struct daemon_process *daemon, uid_t uid);
bool become_other_user(void);
