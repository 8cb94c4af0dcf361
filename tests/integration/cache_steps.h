/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One of MIOpen's per-user caches, written by sqlite3 and bzip2, beside a real kilnd.
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
    struct fixture *rows;  /* what was written into the cache: the shared large one, or small */
    struct fixture *small; /* owned, or NULL */
    char directory[128];   /* of the cache */
    char path[160];        /* the cache */
};

/* Once for all tests of a program, since packing takes seconds: 978 rows with the names and
 * arguments of a genuine cache where that is at hand, else made up, and one that bzip2 makes
 * larger.  Each is stored as MIOpen does. */
int write_large_cache(void **state);
int remove_large_cache(void **state);

int caches_setup(void **state);
int caches_teardown(void **state);
FIXTURE(caches, caches_setup, caches_teardown);
/* Copies it to |f|->path. */
void use_large_cache(struct caches *f);
void use_small_cache(struct caches *f);

/* One that keeps no answers: each fetch reaches the daemon.  Owned by the caller. */
struct kiln_client *open_client(const struct caches *f);
/* By name and arguments; KILN_E_OK only with the right bytes. */
int fetch_row(const struct caches *f, struct kiln_client *client, size_t at, int *ret_tier);
/* Every row comes from |tier|, or with KILN_TIER_NONE from any, and nothing counts as a miss. */
void expect_rows(struct caches *f, int tier);

/* `kilnctl kernel import`; its answer is in |f|->result. */
void import(struct caches *f, const char *path);

/* What MIOpen is to a cache: a process that holds it open. */
struct writer { /* sqlite3 */
    pid_t pid;
    FILE *in, *out; /* owned */
};

void writer_start(struct writer *w, const char *path);
/* Returns when the process has done it. */
void writer_do(struct writer *w, const char *sql);
void writer_kill(struct writer *w);
