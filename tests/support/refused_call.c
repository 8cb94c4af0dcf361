/* SPDX-License-Identifier: MIT */
#include "tests/support/refused_call.h"

#include <seccomp.h>
#include <stdint.h>
#include <sys/prctl.h>

bool refuse_call(int number, int error)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter)
        return false;
    bool is_set =
        seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint16_t)error), number, /* arg_cnt= */ 0) == 0 &&
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && seccomp_load(filter) == 0;
    seccomp_release(filter);
    return is_set;
}
