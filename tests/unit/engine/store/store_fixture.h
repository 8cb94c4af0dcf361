/* SPDX-License-Identifier: MIT */
#pragma once

/* A kernel store in a temporary directory, and verbs to talk about it. */
#include "engine/db/query.h"
#include "engine/store/kernel_store.h"
#include "tests/support/test.h"

#define ROOMY (1ull << 30)

struct fixture {
    char directory[128];
    char file[160];              /* of kernels.db */
    uint64_t limit, quota;       /* as reopen uses them */
    enum kernel_store_mode mode; /* likewise */
    struct kernel_store *store;
    char notice[512];
    struct kiln_err err;
};

/* fdatasync(2) fails with it; 0: it does nothing. */
extern int sync_fails_with;
extern unsigned syncs; /* calls of fdatasync(2) */

/* An open, empty store without a limit that matters. */
int fixture_setup(void **state);
int fixture_teardown(void **state);
FIXTURE(store, fixture_setup, fixture_teardown);
/* Closes the store and opens it again, with |limit|. */
enum kiln_code reopen(struct fixture *f, uint64_t limit);
void close_store(struct fixture *f);

struct digest key_of(unsigned number);
/* |size| bytes that depend on |seed|; compressible to about a third, or not at all. */
void fill(uint8_t *data, size_t size, uint64_t seed, bool compressible);
struct object *object_of(size_t size, uint64_t seed, bool compressible);

struct kernel {
    unsigned number; /* of the key */
    size_t size;
    uint64_t seed; /* of the content; 0: the key's number */
    bool compressible;
    const char *target; /* NULL: gfx90a */
    const char *program;
    uint64_t compile_ns;
    uint64_t last_used;
    uint32_t uid; /* 0: 1000 */
    bool pinned, is_private;
    uint64_t toolchain; /* its identity is key_of(this); 0: 7 */
    const char *package;
};
enum kiln_code put(struct fixture *f, struct kernel kernel);
/* As put, which must work; returns how many were evicted. */
uint64_t stored(struct fixture *f, struct kernel kernel);
/* As put, of a kernel that somebody brings. */
enum kiln_code import(struct fixture *f, struct kernel kernel);
/* The object's digest equals that of the content |seed| made. */
bool holds(struct fixture *f, unsigned number);
bool is_damaged(struct fixture *f, unsigned number);
struct kernel_usage usage(struct fixture *f);
/* What kernels.db and its log take on the disk, as stat(2) says. */
uint64_t taken(struct fixture *f);
/* Keys of kernels |from| to |to|. */
void keys_of(unsigned from, unsigned to, struct digest *keys);

/* Runs |sql| on a connection of its own; ?1 is |key| where it is not NULL. */
void meddle(struct fixture *f, const char *sql, const struct digest *key);
/* The number that |sql| answers. */
uint64_t ask(struct fixture *f, const char *sql);
/* Files in the directory whose name begins with |prefix|. */
unsigned files(struct fixture *f, const char *prefix);
