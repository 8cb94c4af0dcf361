/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/unit/engine/service/kernel_files.h"

struct users {
    struct engine_fixture engine;
    struct test_caller ann, bob;         /* uids 1000 and 1001 */
    struct test_caller publisher, admin; /* uids 1002 and 0 */
    /* paths in the engine's directory, where no files are yet */
    char file[96], made[96], again[96];
    unsigned descriptors; /* number of open descriptors before users_open */
};

/* Opens an engine, which knows its toolchains if |describe| is true. The end of the test checks
 * that no staged file and no descriptor is left. */
void users_open(struct users *f, bool describe);
SET_UP_OF(users_setup, struct users) { users_open(f, /* describe= */ true); }
FIXTURE_OF(users, struct users, users_setup, NULL);
SET_UP_OF(users_setup_undescribed, struct users) { users_open(f, /* describe= */ false); }
FIXTURE_OF(undescribed, struct users, users_setup_undescribed, NULL);

void users_stop(struct users *f);
void users_start(struct users *f);
/* Starts the engine. |toolchains| is the answer to its describe job, or NULL for no answer. */
void users_start_as(struct users *f, const char *toolchains);
void users_reopen(struct users *f);

uint64_t users_stat(struct users *f, const char *name);

unsigned count_tasks(const struct users *f);

void fetch_program(struct test_caller *c, uint64_t id, const char *program);
void finish_compile(struct users *f, const char *content);
/* Ends all compiles with |object|, and also the compiles that the engine then starts. */
void finish_compiles(struct users *f, struct bytes object);
struct digest compile_program(struct test_caller *c, const char *program);

void put_one(struct users *f, const char *file_name, const char *name, const char *content);
