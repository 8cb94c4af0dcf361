/* SPDX-License-Identifier: MIT */
#include "tests/bench/tuning_memory.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>

static atomic_uint_fast64_t kept; /* usable bytes of all allocations that are not freed yet */

/* glibc's allocator, which is called by the counting functions below. The counting functions
 * replace malloc in this program and its libraries. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count_piece, size_t size);
void *__libc_realloc(void *piece, size_t size);
void __libc_free(void *piece);

static void *count_piece(void *piece)
{
    if (piece)
        atomic_fetch_add_explicit(&kept, malloc_usable_size(piece), memory_order_relaxed);
    return piece;
}

static void uncount_piece(void *piece)
{
    if (piece)
        atomic_fetch_sub_explicit(&kept, malloc_usable_size(piece), memory_order_relaxed);
}

void *malloc(size_t __size) { return count_piece(__libc_malloc(__size)); }

void *calloc(size_t __nmemb, size_t __size) { return count_piece(__libc_calloc(__nmemb, __size)); }

void *realloc(void *__ptr, size_t __size)
{
    uncount_piece(__ptr);
    void *moved = __libc_realloc(__ptr, __size);
    count_piece(moved || __size == 0 ? moved : __ptr);
    return moved;
}

void free(void *__ptr)
{
    uncount_piece(__ptr);
    __libc_free(__ptr);
}

static uint64_t kib_after(const char *text, const char *label)
{
    const char *at = strstr(text, label);
    return at ? strtoull(at + strlen(label), NULL, 10) << 10 : 0;
}

enum kiln_code process_memory(struct process_memory *ret_memory, struct kiln_err *err)
{
    /* static, because the memory of the heap and of the stack is measured */
    static char text[4096];
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
