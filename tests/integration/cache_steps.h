/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A real kilnd, and one of MIOpen's per-user caches, which sqlite3 and bzip2 write.
 *
 * Ownership  caches_teardown ends the daemon and removes all directories
 */
#include "tests/integration/steps.h"
#include "tests/unit/engine/miopen/kern_db_fixture.h"

#include <kiln/kiln.h>

#include <stdio.h>

#define CACHE_DEVICE "gfx906_60"
#define CACHE CACHE_DEVICE ".ukdb"
#define SMALL_CACHE_ROWS 40

struct caches {
    struct daemon_process daemon;
    struct program_result result;
    struct fixture *rows;  /* the rows of the cache: the shared large one, or |small| */
    struct fixture *small; /* owned, or NULL */
    char directory[128];   /* directory of the cache */
    char path[160];        /* path of the cache */
};

/* Writes the large cache, once for all tests of a program, because compressing it takes seconds. It
 * has 978 rows with the names and arguments of a genuine cache (or made-up ones if there is none),
 * and one row that bzip2 makes larger. Each row is stored as MIOpen stores it. */
int write_large_cache(void **state);
int remove_large_cache(void **state);

int caches_setup(void **state);
int caches_teardown(void **state);
FIXTURE_OF(caches, struct caches, caches_setup, caches_teardown);
/* Copies the large cache to |f|->path. */
void use_large_cache(struct caches *f);
void use_small_cache(struct caches *f);

/* Opens a client without an in-process cache, so that each fetch reaches the daemon. The caller
 * owns it. */
struct kiln_client *open_client(const struct caches *f);
/* Fetches a row by name and arguments. KILN_E_OK means that the bytes are correct, too. */
int fetch_row(const struct caches *f, struct kiln_client *client, size_t at, int *ret_tier);
/* Fetches every row, which must come from |tier| (KILN_TIER_NONE: any tier), without a miss. */
void expect_rows(struct caches *f, int tier);

/* Runs `kilnctl kernel import`, whose result is in |f|->result. */
void import_cache(struct caches *f, const char *path);

/* Starts a process that has a cache open, as MIOpen does. */
struct writer { /* a process of sqlite3 */
    pid_t pid;
    FILE *in, *out; /* owned */
};

void writer_start(struct writer *w, const char *path);
/* Runs |sql| in the process, and returns when it is done. */
void writer_do(struct writer *w, const char *sql);
void writer_kill(struct writer *w);
