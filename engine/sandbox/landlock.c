/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/landlock.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FILE_RIGHTS                                                                              \
    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE | \
     LANDLOCK_TRUNCATE)
#define NETWORK_SINCE 4
#define SCOPES_SINCE 6

unsigned landlock_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return version > 0 ? (unsigned)version : 0;
}

struct landlock_rights landlock_rights(unsigned version)
{
    static const unsigned files[] = { 0, 13, 14, 15, 15, 16 }; /* how many file rights each version
                                                                * has; the index is the version */
    size_t last = sizeof(files) / sizeof(files[0]) - 1;
    return (struct landlock_rights){
        .files = (1ull << files[version < last ? version : last]) - 1,
        .network = version >= NETWORK_SINCE ? LANDLOCK_BIND_TCP | LANDLOCK_CONNECT_TCP : 0,
        .scoped = version >= SCOPES_SINCE ? LANDLOCK_ABSTRACT_SOCKETS | LANDLOCK_SIGNALS : 0,
    };
}

/* Creates a ruleset. Linux's struct landlock_ruleset_attr becomes longer with new versions. An
 * older Linux accepts the longer struct if the bytes that it does not know are zero. */
enum kiln_code landlock_begin(const struct landlock_rights *handled,
                              struct landlock_rules *ret_rules, struct kiln_err *err)
{
    const struct {
        uint64_t files, network, scoped;
    } attributes = { handled->files, handled->network, handled->scoped };
    int fd = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot create a Landlock ruleset");
    *ret_rules = (struct landlock_rules){ .fd = fd, .handled = handled->files };
    return KILN_OK;
}

void landlock_rules_done(struct landlock_rules *rules)
{
    fd_auto(&rules->fd);
    rules->fd = -1;
}

void landlock_allow(const struct landlock_rules *rules, const char *path, uint64_t access)
{
    struct stat seen;
    KILN_AUTO(fd) int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &seen) != 0)
        return;
    const struct landlock_path_beneath_attr rule = {
        .allowed_access = rules->handled & (S_ISDIR(seen.st_mode) ? access : access & FILE_RIGHTS),
        .parent_fd = fd,
    };
    syscall(SYS_landlock_add_rule, rules->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

enum kiln_code landlock_enforce(struct landlock_rules *rules, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (syscall(SYS_landlock_restrict_self, rules->fd, 0) != 0)
        rc = kiln_fail_errno(err, errno, "cannot enforce the Landlock ruleset");
    landlock_rules_done(rules);
    return rc;
}
