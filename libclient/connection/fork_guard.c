/* SPDX-License-Identifier: MIT */
#include "libclient/connection/fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#define GUARD_SIZE 1

void fork_guard_init(struct fork_guard *guard)
{
    *guard = (struct fork_guard){ .pid = getpid() };
    unsigned char *page =
        mmap(NULL, GUARD_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    if (madvise(page, GUARD_SIZE, MADV_WIPEONFORK)) {
        munmap(page, GUARD_SIZE);
        return;
    }
    *page = 1;
    guard->page = page;
}

void fork_guard_done(struct fork_guard *guard)
{
    if (guard->page)
        munmap((void *)guard->page, GUARD_SIZE);
    guard->page = NULL;
}

bool fork_guard_holds(const struct fork_guard *guard)
{
    return guard->page ? *guard->page == 1 : getpid() == guard->pid;
}
