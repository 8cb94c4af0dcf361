/* SPDX-License-Identifier: MIT */
/* For what becomes another program where it may not, or can no longer, write what it counted: gcc
 * makes calls of these, which write it, of those of execve and execv. */
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
