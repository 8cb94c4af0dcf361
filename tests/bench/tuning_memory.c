/* SPDX-License-Identifier: MIT */
#include "tests/bench/tuning_memory.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <string.h>

#define SIZES 64u
#define PIECES 7u

static uint64_t in_use(void)
{
    struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
}

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
    ret_memory->kept = in_use();
    return KILN_OK;
}

/* glibc keeps freed pieces of up to 1032 bytes, seven of each size, and counts them as in use: so
 * all are taken out, and what was taken is subtracted. */
uint64_t process_kept(void)
{
    void *pieces[SIZES * PIECES];
    uint64_t taken = 0;
    for (size_t i = 0; i < SIZES * PIECES; i++) {
        pieces[i] = malloc(24 + i / PIECES * 16);
        taken += pieces[i] ? malloc_usable_size(pieces[i]) + sizeof(size_t) : 0;
    }
    uint64_t kept = in_use() - taken;
    for (size_t i = 0; i < SIZES * PIECES; i++)
        free(pieces[i]);
    return kept;
}
