/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * NVRTC, and the programs of many solutions, each there once.
 *
 * Role       as the compilers of the engine do it, with the same names and options, in one process
 * Ownership  a pool owns its programs and their objects; sources and names are borrowed
 * Threading  nvrtc_compile from many threads, of different programs; all else: one thread
 */
#include "common/bytes.h"
#include "common/err.h"
#include "engine/compile/rtc.h"
#include "engine/solver/solver.h"

struct nvrtc {
    void *dl;
    struct rtc_library library;
    char path[256];
    int major, minor;
};

/* The library stays: one that is unloaded leaves threads' memory behind.  Looks where CUDA installs
 * it, where Python's packages have it, and where the loader looks. KILN_UNAVAILABLE when it is
 * nowhere. */
KILN_MUST_CHECK enum kiln_code nvrtc_open(struct nvrtc *ret_nvrtc, struct kiln_err *err);

struct nvrtc_program {
    struct solution_program source;
    char target[16];
    uint64_t hash; /* of the options: programs of one source are many */
    void *object;  /* owned; NULL: it does not compile, and |log| says why */
    size_t size;
    char *log; /* owned, or NULL */
};

struct nvrtc_pool {
    struct nvrtc_program **programs; /* owned */
    size_t count, room;
};

/* The number of the program: of the one that is there already, where it is the same.  SIZE_MAX
 * when memory is short. */
size_t nvrtc_pool_add(struct nvrtc_pool *pool, const struct solution_program *source,
                      const char *target);
void nvrtc_pool_done(struct nvrtc_pool *pool);
/* Says of itself, in |program|, whether it could be. */
void nvrtc_compile(const struct nvrtc *nvrtc, struct nvrtc_program *program);
