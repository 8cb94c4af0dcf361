/* SPDX-License-Identifier: MIT */

/* A statfs(2) that reports a filesystem type of the test's choice. Tests link it, or start
 * programs with it in LD_PRELOAD. KILN_TEST_F_TYPE is the type, such as "0x6969" for NFS;
 * without it, statfs reports the real type. KILN_TEST_F_DIRECTORY limits the change to paths
 * that begin with its value. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_meant(const char *path)
{
    const char *directory = getenv("KILN_TEST_F_DIRECTORY");
    return !directory || strncmp(path, directory, strlen(directory)) == 0;
}

static int ask(const char *path, struct statfs *ret_seen)
{
    int rc = (int)syscall(SYS_statfs, path, ret_seen);
    const char *wanted = getenv("KILN_TEST_F_TYPE");
    if (rc == 0 && wanted && is_meant(path))
        ret_seen->f_type = (__typeof__(ret_seen->f_type))strtoul(wanted, NULL, 0);
    return rc;
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc's names are reserved
__attribute__((visibility("default"))) int statfs(const char *path, struct statfs *ret_seen)
{
    return ask(path, ret_seen);
}

_Static_assert(sizeof(struct statfs) == sizeof(struct statfs64), "one struct for both");
__attribute__((visibility("default"))) int statfs64(const char *path, struct statfs64 *ret_seen)
{
    return ask(path, (struct statfs *)ret_seen);
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
