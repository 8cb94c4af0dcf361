/* SPDX-License-Identifier: MIT */
#pragma once

/* Compiles with NVRTC. A pool has the programs of many solutions, each program once.
 *
 * Role       compiles like kilnd's compiler processes, with the same names and options, but in the
 *            calling process
 * Ownership  a pool owns its programs and their objects; sources and names are borrowed
 * Threading  many threads may call nvrtc_compile, with different programs; all other functions are
 *            for one thread */
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

/* Searches CUDA's directory, Python's packages, and the loader's path. Returns KILN_UNAVAILABLE if
 * NVRTC is not found. The library stays loaded, because unloading would leak the memory of its
 * threads. */
KILN_MUST_CHECK enum kiln_code nvrtc_open(struct nvrtc *ret_nvrtc, struct kiln_err *err);

struct nvrtc_program {
    struct solution_program source;
    char target[16];
    uint64_t hash; /* hash of the options, to compare programs fast; many have the same source */
    void *object;  /* owned; NULL if the program does not compile (see |log|) */
    size_t size;
    char *log;
};

struct nvrtc_pool {
    struct nvrtc_program **programs;
    size_t count, capacity;
};

/* Adds a program unless the pool has it already. Returns its index, or SIZE_MAX if out of
 * memory. */
size_t nvrtc_pool_add(struct nvrtc_pool *pool, const struct solution_program *source,
                      const char *target);
void nvrtc_pool_done(struct nvrtc_pool *pool);
void nvrtc_compile(const struct nvrtc *nvrtc, struct nvrtc_program *program);
