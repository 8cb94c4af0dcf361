/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The parts of SQLite's file format (https://sqlite.org/fileformat2.html) that several files need.
 *
 * Threading  pure functions
 */
#include <stdbool.h>
#include <stdint.h>

/* The suffixes that SQLite appends to a database's name to name its files: the database itself, its
 * log, and the log's index. */
static const char *const sqlite_suffixes[] = { "", "-wal", "-shm" };
#define SQLITE_SUFFIXES (sizeof(sqlite_suffixes) / sizeof(sqlite_suffixes[0]))

#define SQLITE_PAGE_SIZE_AT 16 /* offset in the header of a database; two bytes */
#define SQLITE_PAGE_SIZE_DEFAULT 4096

static inline uint32_t sqlite_be16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

static inline uint32_t sqlite_be32(const uint8_t *at)
{
    return sqlite_be16(at) << 16 | sqlite_be16(at + 2);
}

static inline bool sqlite_is_page_size(uint32_t size)
{
    return size >= 512 && size <= 65536 && (size & (size - 1)) == 0;
}

static inline uint32_t sqlite_page_size(const uint8_t stored[2])
{
    uint32_t size = sqlite_be16(stored) == 1 ? 65536 : sqlite_be16(stored);
    return sqlite_is_page_size(size) ? size : SQLITE_PAGE_SIZE_DEFAULT;
}
