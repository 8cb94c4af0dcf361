/* SPDX-License-Identifier: MIT */
#pragma once

/* Imports of MIOpen's per-user kernel caches. |f->file| is the cache. */
#include "tests/unit/engine/service/users_fixture.h"

#define ID "gfx906_60"
#define ARGS "  -mcpu=gfx906"
#define MANY 600 /* number of rows; an import needs more than two steps for them */

void write_cache(struct users *f, const struct kernel_row *rows, size_t count);
void write_many(struct users *f, unsigned count);

void begin_import(struct users *f, struct test_caller *c, const char *question);
void end_transfer(struct users *f);
void import_cache(struct users *f, struct test_caller *c, const char *question);
void import_one(struct users *f, struct test_caller *c, const char *question, const char *content);

struct message_result ask_imported(struct test_caller *c, const char *name);
bool gets_content(struct test_caller *c, const char *content);
size_t listed_kernels(struct test_caller *c);
