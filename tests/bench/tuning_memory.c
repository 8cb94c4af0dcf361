/* SPDX-License-Identifier: MIT */
#include "tests/bench/tuning_memory.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>

/* ---- the heap, counted: mallinfo2(3) counts what malloc keeps for reuse as in use ---- */

static atomic_uint_fast64_t kept; /* usable bytes of what was asked for and not given back */

/* glibc's own, behind the names that this program takes for itself and its libraries. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *piece, size_t size);
void __libc_free(void *piece);

static void *count(void *piece)
{
    if (piece)
        atomic_fetch_add_explicit(&kept, malloc_usable_size(piece), memory_order_relaxed);
    return piece;
}

static void uncount(void *piece)
{
    if (piece)
        atomic_fetch_sub_explicit(&kept, malloc_usable_size(piece), memory_order_relaxed);
}

void *malloc(size_t __size) { return count(__libc_malloc(__size)); }

void *calloc(size_t __nmemb, size_t __size) { return count(__libc_calloc(__nmemb, __size)); }

void *realloc(void *__ptr, size_t __size)
{
    uncount(__ptr);
    void *moved = __libc_realloc(__ptr, __size);
    count(moved || __size == 0 ? moved : __ptr);
    return moved;
}

void free(void *__ptr)
{
    uncount(__ptr);
    __libc_free(__ptr);
}

/* ---- pages ---- */

static uint64_t kib_after(const char *text, const char *label)
{
    const char *at = strstr(text, label);
    return at ? strtoull(at + strlen(label), NULL, 10) << 10 : 0;
}

enum kiln_code process_memory(struct process_memory *ret_memory, struct kiln_err *err)
{
    static char text[4096]; /* no allocation may show up in what is measured */
    KILN_AUTO(fd) int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '/proc/self/smaps_rollup'");
    ssize_t n = read(fd, text, sizeof(text) - 1);
    if (n < 0)
        return kiln_fail_errno(err, errno, "cannot read '/proc/self/smaps_rollup'");
    text[n] = '\0';
    ret_memory->resident = kib_after(text, "\nRss:");
    ret_memory->own = kib_after(text, "\nAnonymous:");
    ret_memory->kept = atomic_load(&kept);
    return KILN_OK;
}
