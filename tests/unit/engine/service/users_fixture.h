/* SPDX-License-Identifier: MIT */
#pragma once

/* An engine with four callers who have said hello, and paths for the files of a test. */
#include "tests/unit/engine/service/kernel_files.h"

struct users {
    struct engine_fixture engine;
    struct test_caller ann, bob;         /* users 1000 and 1001 */
    struct test_caller publisher, admin; /* users 1002 and 0 */
    char file[96], made[96], again[96];  /* in the engine's directory; they do not exist yet */
    unsigned descriptors; /* number of descriptors that were open before the engine was opened */
};

int users_setup(void **state);
/* Ends the test, and checks that no staged file and no descriptor remains. */
int users_teardown(void **state);
FIXTURE_OF(users, struct users, users_setup, users_teardown);

/* Like users_setup, but with an engine that does not know its toolchains yet. */
int users_setup_undescribed(void **state);
FIXTURE_OF(undescribed, struct users, users_setup_undescribed, users_teardown);

/* Makes the callers leave, and closes the engine. */
void users_stop(struct users *f);
/* Opens the engine with f->engine.options, and reconnects all callers. */
void users_start(struct users *f);
/* Like users_start, with |toolchains| as the answer to the describe job; NULL leaves the job
 * without an answer. */
void users_start_as(struct users *f, const char *toolchains);
void users_reopen(struct users *f);

/* Returns one number of the answer to "stats". */
uint64_t users_stat(struct users *f, const char *name);

/* Returns the number of tasks on the work queues that have not run yet. */
unsigned count_tasks(const struct users *f);

/* Sends a fetch_source of |program| and runs its tasks. */
void fetch_program(struct test_caller *c, uint64_t id, const char *program);
/* Ends the next compile, which must be pending, with |content| as its object. */
void finish_compile(struct users *f, const char *content);
/* Ends all compiles with |object|, including compiles that these lead to. */
void finish_compiles(struct users *f, struct bytes object);
/* Fetches |program|, compiles it, and returns its key. */
struct digest compile_program(struct test_caller *c, const char *program);

/* Installs a package with one kernel, so that the engine knows it. */
void put_one(struct users *f, const char *file_name, const char *name, const char *content);
