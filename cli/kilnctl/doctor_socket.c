/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/doctor_socket.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SYSTEM_DIRECTORY "/run/kiln/"
#define SYSTEM_SOCKET SYSTEM_DIRECTORY "kilnd.sock"
#define GROUPS_MAX 1024
#define USERS_GROUP "kiln"

static void name_user(uid_t uid, char name[64])
{
    const struct passwd *user = getpwuid(uid);
    snprintf(name, 64, user ? "%.60s" : "%.0s%u", user ? user->pw_name : "", (unsigned)uid);
}

static void name_group(gid_t gid, char name[64])
{
    const struct group *group = getgrgid(gid);
    snprintf(name, 64, group ? "%.60s" : "%.0s%u", group ? group->gr_name : "", (unsigned)gid);
}

static bool contains_group(const gid_t *groups, int count, gid_t gid)
{
    for (int i = 0; i < count; i++) {
        if (groups[i] == gid)
            return true;
    }
    return false;
}

static bool process_has(gid_t gid)
{
    gid_t groups[GROUPS_MAX];
    int count = getgroups(GROUPS_MAX, groups);
    return getegid() == gid || contains_group(groups, count, gid);
}

static bool account_has(uid_t uid, gid_t gid)
{
    gid_t groups[GROUPS_MAX];
    int count = GROUPS_MAX;
    const struct passwd *user = getpwuid(uid);
    if (!user || getgrouplist(user->pw_name, user->pw_gid, groups, &count) < 0)
        return false;
    return contains_group(groups, count, gid);
}

static int try_connect(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(address.sun_path))
        return ENAMETOOLONG;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int errnum =
        fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return errnum;
}

static bool unit_is_installed(void)
{
    static const char *const files[] = { "/etc/systemd/system/kilnd.socket",
                                         "/lib/systemd/system/kilnd.socket",
                                         "/usr/lib/systemd/system/kilnd.socket",
                                         "/usr/local/lib/systemd/system/kilnd.socket" };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (access(files[i], F_OK) == 0)
            return access("/run/systemd/system", F_OK) == 0;
    }
    return false;
}

static bool is_socket(const char *path)
{
    struct stat seen;
    return stat(path, &seen) == 0 && S_ISSOCK(seen.st_mode);
}

static void find_other_socket(struct socket_facts *facts)
{
    char directory[220];
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime)
        snprintf(directory, sizeof(directory), "%.200s", runtime);
    else
        snprintf(directory, sizeof(directory), "/run/user/%u", (unsigned)geteuid());
    facts->no_runtime = !runtime && access(directory, W_OK) != 0;
    snprintf(facts->own, sizeof(facts->own), "%s/kiln/kilnd.sock", directory);
    if (strcmp(facts->own, facts->path) != 0 && is_socket(facts->own))
        snprintf(facts->elsewhere, sizeof(facts->elsewhere), "%s", facts->own);
    else if (strcmp(SYSTEM_SOCKET, facts->path) != 0 && is_socket(SYSTEM_SOCKET))
        snprintf(facts->elsewhere, sizeof(facts->elsewhere), "%s", SYSTEM_SOCKET);
}

void socket_facts_gather(const char *path, struct socket_facts *ret_facts)
{
    struct stat seen;
    struct socket_facts facts = { .euid = geteuid() };
    snprintf(facts.path, sizeof(facts.path), "%s", path);
    facts.is_system = strncmp(path, SYSTEM_DIRECTORY, strlen(SYSTEM_DIRECTORY)) == 0;
    facts.has_unit = facts.is_system && unit_is_installed();
    name_user(facts.euid, facts.user);
    find_other_socket(&facts);
    if (stat(path, &seen) != 0) {
        facts.stat_errno = errno;
    } else {
        facts.mode = seen.st_mode;
        facts.uid = seen.st_uid;
        facts.gid = seen.st_gid;
        facts.has_group = getgrnam(USERS_GROUP) != NULL;
        name_user(seen.st_uid, facts.owner);
        name_group(seen.st_gid, facts.group);
        facts.in_group = process_has(seen.st_gid);
        facts.in_group_file = account_has(facts.euid, seen.st_gid);
        facts.connect_errno = S_ISSOCK(seen.st_mode) ? try_connect(path) : 0;
    }
    *ret_facts = facts;
}

static void advise_start(const struct socket_facts *s, struct finding *finding)
{
    char other[400] = "";
    if (s->elsewhere[0])
        snprintf(other, sizeof(other),
                 "\nor use the one at %s: unset KILN_SOCKET and omit --socket", s->elsewhere);
    if (s->has_unit)
        findings_advise(finding, "as root: systemctl enable --now kilnd.socket%s", other);
    else if (s->is_system)
        findings_advise(finding,
                        "install kiln's package, or run as root: kilnd\n"
                        "for yourself alone, run as your user: %skilnd &%s",
                        s->no_runtime ? "export XDG_RUNTIME_DIR=DIR (a private directory, the same "
                                        "for kilnd and its clients), then "
                                      : "",
                        other);
    else
        findings_advise(finding, "start it: kilnd --socket %s &%s", s->path, other);
}

static bool judge_missing(const struct socket_facts *s, struct findings *f)
{
    if (s->stat_errno == EACCES) {
        struct finding *hidden =
            findings_add(f, "socket", VERDICT_FAIL, "user %s may not enter the directory of '%s'",
                         s->user, s->path);
        findings_advise(hidden, "%s",
                        s->is_system ? "as root: chmod 755 /run/kiln"
                                     : "unset KILN_SOCKET and omit --socket; or start your own "
                                       "kilnd: kilnd &");
        return false;
    }
    bool tried_own = s->is_system && s->euid != 0 && s->own[0];
    struct finding *missing =
        findings_add(f, "socket", VERDICT_FAIL,
                     "there is no '%s'%s%s%s: kilnd does not run, or uses another socket", s->path,
                     tried_own ? ", and no socket of your own at '" : "", tried_own ? s->own : "",
                     tried_own ? "'" : "");
    advise_start(s, missing);
    return false;
}

static bool mode_lets_in(const struct socket_facts *s)
{
    mode_t bit = s->euid == s->uid ? S_IWUSR : s->in_group ? S_IWGRP : S_IWOTH;
    return s->euid == 0 || s->mode & bit;
}

/* Returns whether members of the socket's group may connect. Returns false if that group is
 * root: the socket has this group only because the group of kilnd's users did not exist. */
static bool lets_in_group(const struct socket_facts *s)
{
    return (s->mode & S_IWGRP) && s->gid != 0;
}

static void advise_group(const struct socket_facts *s, struct finding *finding)
{
    findings_advise(finding, "as root: %susermod -aG " USERS_GROUP " %s\nthen restart kilnd%s",
                    s->has_group ? "" : "groupadd --system " USERS_GROUP "; ",
                    s->euid == 0 ? "USER" : s->user, s->euid == 0 ? "" : ", and log in again");
}

static bool judge_denied(const struct socket_facts *s, struct findings *f)
{
    struct finding *denied;
    bool group_may = lets_in_group(s);
    if (mode_lets_in(s)) {
        denied = findings_add(f, "permission", VERDICT_FAIL,
                              "its mode lets user %s in, but the system denies access: a rule of "
                              "SELinux or AppArmor",
                              s->user);
        findings_advise(denied,
                        "as root: find the rule with 'ausearch -m avc -ts recent' or 'journalctl "
                        "-k', and allow connections to the socket");
    } else if (group_may && s->in_group_file && !s->in_group) {
        denied = findings_add(f, "permission", VERDICT_FAIL,
                              "user %s is in group %s, but logged in before being added", s->user,
                              s->group);
        findings_advise(denied, "log in again; until then: newgrp %s", s->group);
    } else if (group_may) {
        denied = findings_add(f, "permission", VERDICT_FAIL,
                              "only group %s may use the socket, and user %s is not in it",
                              s->group, s->user);
        findings_advise(denied, "as root: usermod -aG %s %s\nthen log in again", s->group, s->user);
    } else {
        denied = findings_add(f, "permission", VERDICT_FAIL,
                              "only user %s may use the socket (group %s, mode %04o)", s->owner,
                              s->group, (unsigned)(s->mode & 07777));
        if (s->uid == 0)
            advise_group(s, denied);
        else
            findings_advise(denied, "start your own kilnd, as %s: kilnd &", s->user);
    }
    return false;
}

static void judge_allowed(const struct socket_facts *s, struct findings *f)
{
    bool root_only = s->uid == 0 && !lets_in_group(s) && !(s->mode & S_IWOTH);
    if (s->euid == 0 && s->is_system && root_only)
        advise_group(s, findings_add(f, "permission", VERDICT_WARN,
                                     "only root may use it: there was no group " USERS_GROUP
                                     " when kilnd started"));
    else
        findings_add(f, "permission", VERDICT_OK, "user %s may use it", s->user);
}

bool socket_judge(const struct socket_facts *s, struct findings *f)
{
    if (s->stat_errno)
        return judge_missing(s, f);
    if (!S_ISSOCK(s->mode)) {
        struct finding *other =
            findings_add(f, "socket", VERDICT_FAIL, "'%s' is not a socket", s->path);
        findings_advise(other, "move it away, then start kilnd; or name the socket with --socket");
        return false;
    }
    findings_add(f, "socket", VERDICT_OK, "%s, user %s, group %s, mode %04o", s->path, s->owner,
                 s->group, (unsigned)(s->mode & 07777));
    if (s->connect_errno == EACCES || s->connect_errno == EPERM)
        return judge_denied(s, f);
    if (s->connect_errno == 0 || s->connect_errno == EAGAIN) {
        judge_allowed(s, f);
        return true;
    }
    struct finding *dead =
        s->connect_errno == ECONNREFUSED
            ? findings_add(f, "daemon", VERDICT_FAIL,
                           "no process listens on '%s': it was left by a killed kilnd", s->path)
            : findings_add(f, "daemon", VERDICT_FAIL, "cannot connect to '%s': %s", s->path,
                           strerror(s->connect_errno));
    advise_start(s, dead);
    return false;
}
