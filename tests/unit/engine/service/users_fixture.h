/* SPDX-License-Identifier: MIT */
#pragma once

/* An engine with one user and one administrator who have said hello. */
#include "tests/unit/engine/service/kernel_files.h"

struct users {
    struct engine_fixture engine;
    struct test_caller user;  /* uid 1000 */
    struct test_caller admin; /* uid 0 */
};

int users_setup(void **state);
int users_teardown(void **state);
FIXTURE(users, users_setup, users_teardown);
/* The engine is closed and opened again with f->engine.options, and both come back. */
void users_reopen(struct users *f);

/* A package of one kernel, and the engine knows of it. */
void put_one(struct users *f, const char *file_name, const char *name, const char *content);
