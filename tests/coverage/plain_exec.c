/* SPDX-License-Identifier: MIT */
/* gcc replaces execve and execv by functions that write the coverage counters first. The functions
 * in this file replace gcc's and write no counters, because some processes may not write files. */
#include <sys/syscall.h>
#include <unistd.h>

int __wrap___gcov_execve(const char *path, char *const arguments[], char *const environment[]);
int __wrap___gcov_execve(const char *path, char *const arguments[], char *const environment[])
{
    return (int)syscall(SYS_execve, path, arguments, environment);
}

int __wrap___gcov_execv(const char *path, char *const arguments[]);
int __wrap___gcov_execv(const char *path, char *const arguments[])
{
    return (int)syscall(SYS_execve, path, arguments, environ);
}
