/* SPDX-License-Identifier: MIT */
#include "tests/integration/host.h"

#include <grp.h>
#include <string.h>
#include <unistd.h>

void need_root(void)
{
    if (geteuid() == 0)
        return;
    SKIP("only root can act as another user");
}

void run_programs_as(struct daemon_process *daemon, uid_t uid)
{
    static struct program_result result;
    admit_all_users(daemon);
    daemon->user = uid;
    run_program(daemon, &result, "kilnctl", "--version", NULL);
    if (result.status == 0)
        return;
    SKIP("user %u cannot run programs in '%s'", (unsigned)uid, KILN_BIN);
}

bool become_other_user(void)
{
    return setgroups(0, NULL) == 0 && setresgid(OTHER_USER, OTHER_USER, OTHER_USER) == 0 &&
           setresuid(OTHER_USER, OTHER_USER, OTHER_USER) == 0;
}
