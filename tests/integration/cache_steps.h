/* SPDX-License-Identifier: MIT */
#pragma once

/* A real kilnd and a per-user cache of MIOpen, which sqlite3 and bzip2 write. */
#include "tests/integration/steps.h"
#include "tests/support/daemon_client.h"
#include "tests/unit/engine/miopen/kern_db_fixture.h"

#include <stdio.h>

#define CACHE_DEVICE "gfx906_60"
#define CACHE CACHE_DEVICE ".ukdb"
#define SMALL_CACHE_ROWS 40

struct caches {
    struct daemon_process daemon;
    struct program_result result;
    struct fixture *rows;
    struct fixture small;
    const char *directory, *path;
};

/* Writes the large cache once for all tests of a program, because compressing it takes seconds.
 * The cache has 978 rows with the names and arguments of a genuine cache if there is one,
 * otherwise with made-up ones. In one more row, bzip2 would make the object larger. */
int write_large_cache(void **state);

void caches_open(struct caches *f);
SET_UP_OF(set_up_caches, struct caches) { caches_open(f); }
FIXTURE_OF(caches, struct caches, set_up_caches, NULL);
void use_large_cache(struct caches *f);
void use_small_cache(struct caches *f);

/* Fetches the kernel of row |at|. Returns KILN_E_OK if its bytes are correct. */
int fetch_row(const struct caches *f, struct kiln_client *client, size_t at, int *ret_tier);
/* Fetches the kernels of all rows, each of which must come from |tier|, or from any tier if
 * |tier| is KILN_TIER_NONE. */
void expect_rows(struct caches *f, int tier);

void import_cache(struct caches *f, const char *path);

struct writer {
    pid_t pid;
    FILE *in, *out; /* owned */
};

void writer_start(struct writer *w, const char *path);
void writer_do(struct writer *w, const char *sql);
void writer_kill(struct writer *w);
