/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * NVRTC, and a pool of the programs of many solutions, without duplicates.
 *
 * Role       compiles as the engine's compiler processes do, with the same names and options,
 *            but in one process
 * Ownership  a pool owns its programs and their objects; sources and names are borrowed
 * Threading  nvrtc_compile from many threads, with different programs; all else: one thread
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "engine/compile/rtc.h"
#include "engine/solver/solver.h"

struct nvrtc {
    void *dl;
    struct rtc_library library;
    char path[256];
    int major, minor;
};

/* Looks for the library in CUDA's directory, in Python's packages and on the loader's path;
 * KILN_UNAVAILABLE if it is in none.  The library is never unloaded, because that would leak its
 * threads' memory. */
KILN_MUST_CHECK enum kiln_code nvrtc_open(struct nvrtc *ret_nvrtc, struct kiln_err *err);

struct nvrtc_program {
    struct solution_program source;
    char target[16];
    uint64_t hash; /* of the options: many programs share a source */
    void *object;  /* owned; NULL: it does not compile, see |log| */
    size_t size;
    char *log; /* owned, or NULL */
};

struct nvrtc_pool {
    struct nvrtc_program **programs; /* owned */
    size_t count, capacity;
};

/* Returns the program's index, also if the pool has it already.  SIZE_MAX if out of memory. */
size_t nvrtc_pool_add(struct nvrtc_pool *pool, const struct solution_program *source,
                      const char *target);
void nvrtc_pool_done(struct nvrtc_pool *pool);
/* The result is in |program|. */
void nvrtc_compile(const struct nvrtc *nvrtc, struct nvrtc_program *program);
