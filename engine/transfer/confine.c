/* SPDX-License-Identifier: MIT */
#include "engine/transfer/confine.h"

#include "common/cleanup.h"
#include "engine/transfer/url.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define TRUNCATE (1ull << 14) /* since the third version; not in every header */
#define READ_FILE LANDLOCK_ACCESS_FS_READ_FILE
#define READ (READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE                                                             \
    (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | TRUNCATE)
#define OF_A_FILE (READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE)

struct rules {
    int fd;           /* owned */
    uint64_t handled; /* what this kernel's version knows, all of it forbidden unless allowed */
};

/* What is not there, or not ours to open, needs no permission. */
static void allow(const struct rules *rules, const char *path, uint64_t access)
{
    struct stat seen;
    KILN_AUTO(fd) int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &seen) != 0)
        return;
    struct landlock_path_beneath_attr rule = {
        .allowed_access = rules->handled & (S_ISDIR(seen.st_mode) ? access : access & OF_A_FILE),
        .parent_fd = fd,
    };
    syscall(SYS_landlock_add_rule, rules->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

static void allow_system(const struct rules *rules)
{
    static const char *const read[] = {
        "/usr",
        "/lib",
        "/lib32",
        "/lib64",
        "/nix/store",
        "/etc/ld.so.cache",
        "/etc/ld.so.preload",
        /* names to addresses */
        "/etc/resolv.conf",
        "/etc/nsswitch.conf",
        "/etc/hosts",
        "/etc/host.conf",
        "/etc/gai.conf",
        "/etc/services",
        "/run/systemd/resolve",
        /* certificate authorities, and which ciphers are good enough */
        "/etc/ssl",
        "/etc/pki",
        "/etc/ca-certificates",
        "/etc/crypto-policies",
        "/dev/null",
        "/dev/urandom",
    };
    static const char *const variables[] = { "SSL_CERT_FILE", "SSL_CERT_DIR" };
    for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++)
        allow(rules, read[i], READ);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);
        if (value && strcmp(value, "/") != 0)
            allow(rules, value, READ);
    }
}

/* The two files, not their folder, which may be anybody's home. */
static void allow_source(const struct rules *rules, const char *text)
{
    KILN_AUTO(url) struct url url = { 0 };
    struct kiln_err ignored = KILN_ERR_INIT; /* the transfer itself will say it */
    char manifest[URL_MOST + 64];
    if (!text || url_parse(text, &url, &ignored) || url.scheme != URL_FILE)
        return;
    snprintf(manifest, sizeof(manifest), "%s.manifest", url.path);
    allow(rules, url.path, READ_FILE);
    allow(rules, manifest, READ_FILE);
}

/* Root without capabilities opens what root owns, and no more. */
static bool give_up_privileges(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_capset, &header, none) == 0;
}

static uint64_t all_that_version_knows(long version)
{
    static const unsigned rights[] = { 0, 13, 14, 15, 15, 16 };
    size_t last = sizeof(rights) / sizeof(rights[0]) - 1;
    return (1ull << rights[version < (long)last ? (size_t)version : last]) - 1;
}

enum kiln_code transfer_confine(const struct transfer_job *job, struct kiln_err *err)
{
    if (!give_up_privileges())
        return kiln_fail_errno(err, errno, "cannot give up the privileges of a transfer process");
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "this kernel has no Landlock that is switched on, or one from before "
                         "Linux 5.13");
    struct landlock_ruleset_attr handled = { .handled_access_fs = all_that_version_knows(version) };
    KILN_AUTO(fd)
    int fd = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot confine a transfer process");
    const struct rules rules = { .fd = fd, .handled = handled.handled_access_fs };
    allow_system(&rules);
    allow_source(&rules, job->url);
    allow(&rules, job->trusted_keys, READ);
    allow(&rules, job->staging, WRITE);
    if (syscall(SYS_landlock_restrict_self, fd, 0) != 0)
        return kiln_fail_errno(err, errno, "cannot confine a transfer process");
    return KILN_OK;
}
