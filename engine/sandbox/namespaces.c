/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/namespaces.h"

#include "common/base/cleanup.h"
#include "engine/sandbox/capabilities.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *path;
    int flag;
} kinds[NAMESPACES] = {
    [NAMESPACE_USER] = { "/proc/self/ns/user", CLONE_NEWUSER },
    [NAMESPACE_MOUNT] = { "/proc/self/ns/mnt", CLONE_NEWNS },
    [NAMESPACE_PID] = { "/proc/self/ns/pid", CLONE_NEWPID },
    [NAMESPACE_NETWORK] = { "/proc/self/ns/net", CLONE_NEWNET },
    [NAMESPACE_IPC] = { "/proc/self/ns/ipc", CLONE_NEWIPC },
};

void namespaces_read(struct namespace_ids *ret_ids)
{
    for (size_t i = 0; i < NAMESPACES; i++) {
        struct stat seen;
        ret_ids->of[i] = stat(kinds[i].path, &seen) == 0 ? (uint64_t)seen.st_ino : 0;
    }
}

/* Linux gives the initial namespaces the numbers just below 0xf0000000. All namespaces that are
 * created later have numbers from 0xf0000000 on. */
bool namespace_is_hosts(uint64_t id) { return id >= 0xeffffff0u && id <= 0xefffffffu; }

/* Returns whether every line of |path|, except the first |skipped| ones, has "lo" in column
 * |column| (from 0). Returns true if the file is missing, as on a system without IPv6. */
static bool names_only_loopback(const char *path, unsigned skipped, unsigned column)
{
    char line[512];
    FILE *file = fopen(path, "re");
    bool alone = file || errno == ENOENT;
    while (file && alone && fgets(line, sizeof(line), file)) {
        char *rest = NULL, *name = strtok_r(line, " \t\n", &rest);
        for (unsigned i = 0; name && i < column; i++)
            name = strtok_r(NULL, " \t\n", &rest);
        alone = skipped > 0 || !name || strcmp(name, "lo") == 0;
        skipped -= skipped > 0;
    }
    alone = alone && !(file && ferror(file));
    if (file)
        fclose(file);
    return alone;
}

/* Reads routes and addresses instead of the list of interfaces, because every new network namespace
 * has tunnel interfaces that are down. */
bool network_is_empty_by(const char *routes, const char *addresses)
{
    return names_only_loopback(routes, 1, 0) && names_only_loopback(addresses, 0, 5);
}

bool network_is_empty(void)
{
    return network_is_empty_by("/proc/self/net/route", "/proc/self/net/if_inet6");
}

void namespaces_to_text(const struct namespace_ids *ids, char text[NAMESPACE_TEXT_MAX])
{
    size_t used = 0;
    for (size_t i = 0; i < NAMESPACES; i++)
        used += (size_t)snprintf(text + used, NAMESPACE_TEXT_MAX - used, "%s%" PRIu64, i ? "," : "",
                                 ids->of[i]);
}

bool namespaces_from_text(const char *text, struct namespace_ids *ret_ids)
{
    struct namespace_ids ids;
    int used = 0;
    _Static_assert(NAMESPACES == 5, "one conversion each");
    if (sscanf(text, "%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 "%n", &ids.of[0],
               &ids.of[1], &ids.of[2], &ids.of[3], &ids.of[4], &used) != NAMESPACES ||
        text[used])
        return false;
    *ret_ids = ids;
    return true;
}

bool kernel_since(unsigned major, unsigned minor)
{
    struct utsname name;
    unsigned own_major = 0, own_minor = 0;
    if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &own_major, &own_minor) != 2)
        return false;
    return own_major > major || (own_major == major && own_minor >= minor);
}

static bool write_text(const char *path, const char *text)
{
    KILN_AUTO(fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool map_own_user(uid_t uid, gid_t gid)
{
    char user[64], group[64];
    snprintf(user, sizeof(user), "%u %u 1\n", (unsigned)uid, (unsigned)uid);
    snprintf(group, sizeof(group), "%u %u 1\n", (unsigned)gid, (unsigned)gid);
    return write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", user) &&
           write_text("/proc/self/gid_map", group);
}

/* Returns 0 or an errno. The process must write its maps of users and groups in /proc. After a
 * change of user, a process is not dumpable, and root owns these files. So this function makes the
 * process dumpable while it writes them. */
static int enter_user_namespace(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    int dumpable = prctl(PR_GET_DUMPABLE);
    prctl(PR_SET_DUMPABLE, 1);
    int rc = unshare(CLONE_NEWUSER) == 0 && map_own_user(uid, gid) ? 0 : errno;
    prctl(PR_SET_DUMPABLE, dumpable == 1);
    return rc;
}

/* Tests in a child whether a user namespace is usable.  AppArmor may allow a user namespace but
 * refuse its capabilities, and a process cannot leave such a namespace again. */
static int try_user_namespace(void)
{
    int status = 0;
    pid_t child = fork();
    if (child < 0)
        return errno;
    if (child == 0) {
        int rc = enter_user_namespace();
        _exit(rc || unshare(CLONE_NEWNS) == 0 ? rc : errno);
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return errno;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

static bool is_shared(const struct namespace_ids *outside, const struct namespace_ids *own,
                      enum namespace_kind kind)
{
    return own->of[kind] == 0 || own->of[kind] == outside->of[kind] ||
           namespace_is_hosts(own->of[kind]) || (kind == NAMESPACE_NETWORK && !network_is_empty());
}

void namespaces_leave(const struct namespace_ids *outside, struct namespace_errors *ret_errors)
{
    struct namespace_ids own;
    int user = 0;
    namespaces_read(&own);
    if (!has_capability(CAP_SYS_ADMIN)) {
        user = try_user_namespace();
        if (!user)
            user = enter_user_namespace();
        /* The current mount and process namespaces belong to another user namespace, so this
         * process may not mount anything in them. So it must leave these two namespaces, too. */
        if (!user)
            own.of[NAMESPACE_MOUNT] = own.of[NAMESPACE_PID] = 0;
    }
    *ret_errors = (struct namespace_errors){ .of[NAMESPACE_USER] = user };
    for (enum namespace_kind k = NAMESPACE_MOUNT; k < NAMESPACES; k++) {
        if (is_shared(outside, &own, k))
            ret_errors->of[k] = user ? user : unshare(kinds[k].flag) == 0 ? 0 : errno;
    }
}
