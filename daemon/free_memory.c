/* SPDX-License-Identifier: MIT */
#include "daemon/free_memory.h"

#include <malloc.h>

#define BUSY_BYTES (16u << 20)
#define QUIET_BYTES (1u << 20)

/* Returns freed memory to the system only at the end of a burst, because returning 300 MiB took the
 * loop 29 ms. malloc does not report cheaply how much memory is free: mallinfo2(3) took up to 9
 * ms. */
void free_memory_tick(struct free_memory *f, uint64_t peak, uint64_t now)
{
    f->was_busy = f->was_busy || peak > BUSY_BYTES;
    if (!f->was_busy || now > QUIET_BYTES)
        return;
    malloc_trim(0);
    f->was_busy = false;
}
