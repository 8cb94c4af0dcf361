/* SPDX-License-Identifier: MIT */
#include "daemon/workers/worker_user.h"

#include "common/base/units.h"
#include "daemon/name_service.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The last member is the user number on hosts that do not have the account.  On Linux, 65534 is the
 * user nobody, even if no account has this number (in a minimal container).  Distributions and
 * systemd do not assign 65533 to any user (systemd's UIDS-GIDS.md). */
const struct worker_kind worker_compilers = { "compilers", "compiler_user", "kiln-worker",
                                              "65534" };
const struct worker_kind worker_transfers = { "transfers", "transfer_user", "kiln-transfer",
                                              "65533" };

enum kiln_code worker_user_standard(const struct worker_kind *kind, const char **ret_name,
                                    struct kiln_err *err)
{
    struct name_service_user found;
    enum kiln_code rc = name_service_user(kind->account, &found, err);
    *ret_name = rc ? kind->stand_in : kind->account;
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

enum kiln_code worker_users_differ(const struct worker_user *compilers,
                                   const struct worker_user *transfers, struct kiln_err *err)
{
    if (!compilers->other || !transfers->other || compilers->uid != transfers->uid)
        return KILN_OK;
    return kiln_fail(
        err, KILN_INVALID,
        "compilers and transfers would both run as '%s', and could disturb each other: "
        "name another user with --compiler-user or --transfer-user",
        compilers->name);
}

static enum kiln_code find_number(uid_t uid, struct name_service_user *ret_user,
                                  struct kiln_err *err)
{
    enum kiln_code rc = name_service_user_of_uid(uid, ret_user, err);
    if (rc != KILN_NOT_FOUND)
        return rc;
    *ret_user = (struct name_service_user){ .uid = uid, .gid = (gid_t)uid };
    snprintf(ret_user->name, sizeof(ret_user->name), "%u", (unsigned)uid);
    return KILN_OK;
}

/* Looks up |name|.  A name of digits is always a user number, as in a unit's User=; useradd refuses
 * such account names.  Returns KILN_NOT_FOUND, without a message, if |name| is neither an account
 * nor a number. */
static enum kiln_code look_up(const char *name, struct worker_user *user, struct kiln_err *err)
{
    struct name_service_user found = { 0 };
    uint64_t uid = geteuid();
    bool is_number = !*name || units_parse_number(name, UINT32_MAX - 1, &uid);
    enum kiln_code rc =
        is_number ? find_number((uid_t)uid, &found, err) : name_service_user(name, &found, err);
    if (rc)
        return rc;
    user->uid = found.uid;
    user->gid = found.gid;
    snprintf(user->name, sizeof(user->name), "%s", found.name);
    return KILN_OK;
}

enum kiln_code worker_user_find(const struct worker_kind *kind, const char *name,
                                struct worker_user *ret_user, struct kiln_err *err)
{
    struct worker_user user = { .uid = geteuid(), .gid = getegid() };
    enum kiln_code rc = look_up(name, &user, err);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "there is no user '%s' for %s to run as (setting %s): "
                         "make one with 'useradd --system --shell /usr/sbin/nologin %s', or name "
                         "another",
                         name, kind->who, kind->setting, name);
    if (rc)
        return rc;
    user.other = user.uid != geteuid();
    if (user.other && geteuid() != 0)
        return kiln_fail(err, KILN_DENIED,
                         "%s cannot run as '%s' (setting %s): only root's kilnd can run processes "
                         "as another user",
                         kind->who, user.name, kind->setting);
    if (!user.other)
        user.gid = getegid();
    *ret_user = user;
    return KILN_OK;
}

enum kiln_code worker_user_of_service(const struct worker_kind *kind, struct worker_user *ret_user,
                                      struct kiln_err *err)
{
    *ret_user = (struct worker_user){ .other = false };
    struct name_service_user account;
    enum kiln_code rc = name_service_user(kind->account, &account, err);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "there is no user '%s', which the unit of %s runs as: create it with "
                         "'systemd-sysusers kiln.conf'",
                         kind->account, kind->who);
    if (rc)
        return rc;
    ret_user->uid = account.uid;
    ret_user->gid = account.gid;
    snprintf(ret_user->name, sizeof(ret_user->name), "%s", account.name);
    return KILN_OK;
}

static bool may_pass(const struct worker_user *user, const char *directory)
{
    struct stat seen;
    if (stat(directory, &seen) != 0)
        return false;
    return seen.st_mode & (seen.st_uid == user->uid   ? S_IXUSR
                           : seen.st_gid == user->gid ? S_IXGRP
                                                      : S_IXOTH);
}

bool worker_user_may_enter(const struct worker_user *user, const char *directory)
{
    char path[PATH_MAX];
    if (!user->other)
        return true;
    if (!realpath(directory, path) || !may_pass(user, "/"))
        return false;
    for (char *at = path; *at;) {
        at += 1 + strcspn(at + 1, "/");
        char cut = *at;
        *at = '\0';
        if (!may_pass(user, path))
            return false;
        *at = cut;
    }
    return true;
}
