/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/change_user.h"

#include "engine/sandbox/capabilities.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The system drops capabilities with the user, unless whoever started us asked it not to. */
static bool become(uid_t uid, gid_t gid)
{
    give_up_future_capabilities(); /* needs one that goes with the user */
    return setgroups(0, NULL) == 0 && setresgid(gid, gid, gid) == 0 &&
           setresuid(uid, uid, uid) == 0 && give_up_capabilities();
}

static bool is_only(uid_t uid, gid_t gid)
{
    uid_t r, e, s;
    gid_t rg, eg, sg;
    return getresuid(&r, &e, &s) == 0 && r == uid && e == uid && s == uid &&
           getresgid(&rg, &eg, &sg) == 0 && rg == gid && eg == gid && sg == gid &&
           getgroups(0, NULL) == 0;
}

/* By trying, as what the system says it would allow is not what it allows. */
static bool can_return(void)
{
    return setresuid(0, 0, 0) == 0 || setresgid(0, 0, 0) == 0 || setgroups(0, NULL) == 0;
}

enum kiln_code change_user(uid_t uid, gid_t gid, const char *setting, struct kiln_err *err)
{
    if (geteuid() == 0 && !become(uid, gid))
        return kiln_fail_errno(err, errno,
                               "cannot become user %u and group %u, as the setting %s asks "
                               "(kilnd needs CAP_SETUID and CAP_SETGID for it)",
                               (unsigned)uid, (unsigned)gid, setting);
    if (!is_only(uid, gid) || can_return())
        return kiln_fail(err, KILN_DENIED,
                         "is not user %u and group %u alone, as the setting %s asks", (unsigned)uid,
                         (unsigned)gid, setting);
    if (prctl(PR_SET_DUMPABLE, 0) != 0)
        return kiln_fail_errno(err, errno, "cannot shut out other processes of user %u",
                               (unsigned)uid);
    return KILN_OK;
}
