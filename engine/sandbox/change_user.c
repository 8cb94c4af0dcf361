/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/change_user.h"

#include "engine/sandbox/capabilities.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Becomes the user |uid|. Also drops the capabilities explicitly, because setresuid(2) does not
 * drop them if the parent process set SECBIT_NO_SETUID_FIXUP or SECBIT_KEEP_CAPS
 * (capabilities(7)). */
static bool become_user(uid_t uid, gid_t gid)
{
    give_up_future_capabilities(); /* first, because setresuid drops CAP_SETPCAP, which this call
                                    * needs */
    return setgroups(0, NULL) == 0 && setresgid(gid, gid, gid) == 0 &&
           setresuid(uid, uid, uid) == 0 && give_up_capabilities();
}

static bool has_only(uid_t uid, gid_t gid)
{
    uid_t r, e, s;
    gid_t rg, eg, sg;
    return getresuid(&r, &e, &s) == 0 && r == uid && e == uid && s == uid &&
           getresgid(&rg, &eg, &sg) == 0 && rg == gid && eg == gid && sg == gid &&
           getgroups(0, NULL) == 0;
}

/* Tries to become root again, because the ids that Linux reports do not prove that this is
 * impossible. */
static bool can_return(void)
{
    return setresuid(0, 0, 0) == 0 || setresgid(0, 0, 0) == 0 || setgroups(0, NULL) == 0;
}

enum kiln_code change_user(uid_t uid, gid_t gid, const char *setting, struct kiln_err *err)
{
    if (geteuid() == 0 && !become_user(uid, gid))
        return kiln_fail_errno(err, errno,
                               "cannot become user %u and group %u (setting %s): kilnd needs "
                               "CAP_SETUID and CAP_SETGID",
                               (unsigned)uid, (unsigned)gid, setting);
    if (!has_only(uid, gid) || can_return())
        return kiln_fail(err, KILN_DENIED,
                         "this process is not only user %u and group %u (setting %s)",
                         (unsigned)uid, (unsigned)gid, setting);
    if (prctl(PR_SET_DUMPABLE, 0) != 0)
        return kiln_fail_errno(err, errno, "cannot protect this process from others of user %u",
                               (unsigned)uid);
    return KILN_OK;
}
