/* SPDX-License-Identifier: MIT */
#include "engine/compile/confine.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define READ_FILE LANDLOCK_ACCESS_FS_READ_FILE
#define READ (READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE)
/* PoCL renames from one folder to another, which Landlock allows since its second version; what
 * later ones add is of no use to a compiler. */
#define VERSION_NEEDED 2
#define EVERYTHING ((uint64_t)(LANDLOCK_ACCESS_FS_REFER << 1) - 1)
#define OF_A_FILE (READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE)

/* What is not there, or not ours to open, needs no permission. */
static void allow(int rules, const char *path, uint64_t access)
{
    struct stat seen;
    KILN_AUTO(fd) int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &seen) != 0)
        return;
    struct landlock_path_beneath_attr rule = {
        .allowed_access = S_ISDIR(seen.st_mode) ? access : access & OF_A_FILE,
        .parent_fd = fd,
    };
    syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

static void allow_named(int rules, const char *variable)
{
    const char *value = getenv(variable);
    char *paths = value ? strdup(value) : NULL, *rest = NULL;
    for (char *p = paths ? strtok_r(paths, ":", &rest) : NULL; p; p = strtok_r(NULL, ":", &rest)) {
        if (strcmp(p, "/") != 0)
            allow(rules, p, READ);
    }
    free(paths);
}

/* kiln-compiler starts itself anew for another toolchain, also from a folder that its user may not
 * enter: this leads to the file itself. */
static void allow_self(int rules) { allow(rules, "/proc/self/exe", READ); }

static void allow_system(int rules)
{
    static const char *const read[] = {
        "/usr",
        "/lib",
        "/lib32",
        "/lib64",
        "/bin",
        "/opt",
        "/nix/store",
        "/etc/OpenCL",
        "/etc/alternatives",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/ld.so.preload",
        "/dev/null",
        "/dev/zero",
        "/dev/urandom",
        "/etc/debian_version", /* clang's driver asks which system it is on */
        "/etc/os-release",
        "/etc/lsb-release",
        "/sys/devices", /* PoCL looks for processors and memory */
        "/sys/bus",
        "/sys/class",
        "/sys/fs/cgroup",
        "/sys/kernel/mm",
        /* Landlock itself keeps /proc/PID/environ and the like of other processes closed. */
        "/proc",
    };
    static const char *const variables[] = { "PATH", "LD_LIBRARY_PATH", "OCL_ICD_VENDORS",
                                             "KILN_CUDA_PATH", "KILN_ROCM_PATH" };
    for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++)
        allow(rules, read[i], READ);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        allow_named(rules, variables[i]);
    allow(rules, "/dev/null", READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
}

enum kiln_code confine_to(const char *folder, struct kiln_err *err)
{
    struct landlock_ruleset_attr handled = { .handled_access_fs = EVERYTHING };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return kiln_fail_errno(err, errno, "cannot keep a compiler process from new privileges");
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) <
        VERSION_NEEDED)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "this kernel has no Landlock that is switched on, or one from before "
                         "Linux 5.19");
    KILN_AUTO(fd)
    int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);
    if (rules < 0)
        return kiln_fail_errno(err, errno, "cannot confine a compiler process");
    allow_system(rules);
    allow_self(rules);
    allow(rules, folder, EVERYTHING);
    if (syscall(SYS_landlock_restrict_self, rules, 0) != 0)
        return kiln_fail_errno(err, errno, "cannot confine a compiler process");
    return KILN_OK;
}
