/* SPDX-License-Identifier: MIT */
#pragma once

/* An engine with four callers who have said hello, and paths for the files of a test. */
#include "tests/unit/engine/service/kernel_files.h"

struct users {
    struct engine_fixture engine;
    struct test_caller ann, bob;         /* users 1000 and 1001 */
    struct test_caller publisher, admin; /* users 1002 and 0 */
    char file[96], made[96], again[96];  /* in the engine's directory; do not exist yet */
    unsigned descriptors;                /* number that were open before the engine was */
};

int users_setup(void **state);
/* Also checks that no staged file and no descriptor is left. */
int users_teardown(void **state);
FIXTURE_OF(users, struct users, users_setup, users_teardown);

/* users_setup with an engine that does not know its toolchains yet. */
int users_setup_undescribed(void **state);
FIXTURE_OF(undescribed, struct users, users_setup_undescribed, users_teardown);

/* The callers leave and the engine is closed. */
void users_stop(struct users *f);
/* Opens the engine with f->engine.options, and all callers come back. */
void users_start(struct users *f);
/* The same with |toolchains|, the answer to the describe job; NULL: it is not answered yet. */
void users_start_as(struct users *f, const char *toolchains);
void users_reopen(struct users *f);

/* One number of the answer to "stats". */
uint64_t users_stat(struct users *f, const char *name);

/* Tasks on the work queues that have not run yet. */
unsigned count_tasks(const struct users *f);

/* Sends a fetch_source of |program| and runs its tasks. */
void fetch_program(struct test_caller *c, uint64_t id, const char *program);
/* Ends the next compile, which must be pending, with |content| as its object. */
void finish_compile(struct users *f, const char *content);
/* Ends all compiles, also those that they lead to, with |object|. */
void finish_compiles(struct users *f, struct bytes object);
/* Fetches |program| and compiles it; returns its key. */
struct digest compile_program(struct test_caller *c, const char *program);

/* Installs a package of one kernel; the engine knows it. */
void put_one(struct users *f, const char *file_name, const char *name, const char *content);
