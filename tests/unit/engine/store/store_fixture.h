/* SPDX-License-Identifier: MIT */
#pragma once

#include "engine/db/query.h"
#include "engine/store/kernel_store.h"
#include "tests/support/test.h"
#include "tests/support/whole_store.h"

#define ROOMY (1ull << 30)

struct fixture {
    const char *directory;
    char file[160];
    uint64_t limit, quota;
    enum kernel_store_mode mode;
    struct kernel_store *store;
    char notice[512];
    struct kiln_err err;
};

/* errno with which fdatasync(2) fails. With 0, fdatasync succeeds without doing anything. */
extern int sync_fails_with;
extern unsigned syncs;

/* Opens an empty store with a limit that no test reaches. */
void open_store(struct fixture *f);
SET_UP(set_up_store) { open_store(f); }
FIXTURE(store, set_up_store, NULL);
enum kiln_code reopen(struct fixture *f, uint64_t limit);
void close_store(struct fixture *f);

struct digest key_of(unsigned number);
/* Fills |data| with bytes that depend on |seed|. Compression leaves about a third of them if
 * |compressible|, and otherwise all. */
void fill(uint8_t *data, size_t size, uint64_t seed, bool compressible);
struct object *object_of(size_t size, uint64_t seed, bool compressible);

struct kernel {
    unsigned number;
    size_t size;
    uint64_t seed; /* seed of the content; 0: |number| */
    bool compressible;
    const char *target; /* NULL: gfx90a */
    const char *program;
    uint64_t compile_ns;
    uint64_t last_used;
    uint32_t uid; /* 0: 1000 */
    bool pinned, is_private;
    uint64_t toolchain; /* the toolchain's identity is key_of(toolchain); 0: key_of(7) */
    const char *package;
};
enum kiln_code put(struct fixture *f, struct kernel kernel);
/* Like put, which must succeed. Returns the number of evicted kernels. */
uint64_t stored(struct fixture *f, struct kernel kernel);
/* Stores a kernel of 5000 bytes under the key of |number|. */
void store_one(struct fixture *f, unsigned number);
enum kiln_code import(struct fixture *f, struct kernel kernel);
bool holds(struct fixture *f, unsigned number);
bool is_damaged(struct fixture *f, unsigned number);
struct kernel_usage usage(struct fixture *f);
/* Pins or unpins in steps. Returns the number of matching kernels. */
uint64_t pin_matching(struct fixture *f, const struct kernel_filter *filter, bool pinned);
/* Returns the disk space of kernels.db and its log according to stat(2). */
uint64_t taken(struct fixture *f);
void keys_of(unsigned from, unsigned to, struct digest *keys);

/* Runs |sql| on a separate connection. |key| is bound to ?1 unless |key| is NULL. */
void meddle(struct fixture *f, const char *sql, const struct digest *key);
void tidy_store(struct fixture *f);
void undo_migrations_7_to_9(struct fixture *f);
uint64_t ask(struct fixture *f, const char *sql);
unsigned files(struct fixture *f, const char *prefix);
