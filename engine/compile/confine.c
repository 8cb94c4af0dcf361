/* SPDX-License-Identifier: MIT */
#include "engine/compile/confine.h"

#include "engine/sandbox/landlock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define READ_FILE LANDLOCK_ACCESS_FS_READ_FILE
#define READ (READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE)
/* PoCL renames from one folder to another, which Landlock allows since its second version; what
 * later ones add is of no use to a compiler. */
#define VERSION_NEEDED 2

static void allow_named(const struct landlock_rules *rules, const char *variable)
{
    const char *value = getenv(variable);
    char *paths = value ? strdup(value) : NULL, *rest = NULL;
    for (char *p = paths ? strtok_r(paths, ":", &rest) : NULL; p; p = strtok_r(NULL, ":", &rest)) {
        if (strcmp(p, "/") != 0)
            landlock_allow(rules, p, READ);
    }
    free(paths);
}

/* kiln-compiler starts itself anew for another toolchain, also from a folder that its user may not
 * enter: this leads to the file itself. */
static void allow_self(const struct landlock_rules *rules)
{
    landlock_allow(rules, "/proc/self/exe", READ);
}

static void allow_system(const struct landlock_rules *rules)
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
        landlock_allow(rules, read[i], READ);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        allow_named(rules, variables[i]);
    landlock_allow(rules, "/dev/null", READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
}

enum kiln_code confine_to(const char *folder, struct kiln_err *err)
{
    struct landlock_rules rules;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return kiln_fail_errno(err, errno, "cannot keep a compiler process from new privileges");
    if (landlock_version() < VERSION_NEEDED)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "this kernel has no Landlock that is switched on, or one from before "
                         "Linux 5.19");
    enum kiln_code rc = landlock_begin(landlock_rights(VERSION_NEEDED), &rules, err);
    if (rc)
        return kiln_while(err, "confining a compiler process");
    allow_system(&rules);
    allow_self(&rules);
    landlock_allow(&rules, folder, rules.handled);
    rc = landlock_enforce(&rules, err);
    return rc ? kiln_while(err, "confining a compiler process") : KILN_OK;
}
