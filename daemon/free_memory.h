/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Returns freed memory to the system after a burst of requests.  glibc itself keeps freed memory
 * that lies between blocks in use.
 *
 * Ownership  the caller embeds the struct, zeroed
 * Threading  the loop's thread
 */
#include <stdbool.h>
#include <stdint.h>

struct free_memory {
    bool was_busy;
};

/* Call it about once a second.  |peak| and |now| are bytes of waiting requests: the maximum since
 * the last call, and the current number. */
void free_memory_tick(struct free_memory *free_memory, uint64_t peak, uint64_t now);
