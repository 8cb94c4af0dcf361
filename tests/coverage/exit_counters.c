/* SPDX-License-Identifier: MIT */
/* For programs that leave by _exit, and children of tests, which do. */
#include <unistd.h>

void __gcov_dump(void);

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);
_Noreturn void __wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}
