/* SPDX-License-Identifier: MIT */
#pragma once

/* Users who import a cache of MIOpen's, for the tests of that request. */
#include "tests/unit/engine/service/users_fixture.h"

#define ID "gfx906_60"
#define ARGS "  -mcpu=gfx906"
#define MANY 600 /* rows: more than two steps of an import */

void write_cache(struct users *f, const struct kernel_row *rows, size_t count);
/* |count| kernels named k0.o and on, each with a content of its own. */
void write_many(struct users *f, unsigned count);

void begin_import(struct users *f, struct test_caller *c, const char *question);
/* The transfer is over, the file is ready to be read. */
void end_transfer(struct users *f);
/* Both, and the import itself. */
void import_cache(struct users *f, struct test_caller *c, const char *question);
/* A cache of one kernel, conv.o. */
void import_one(struct users *f, struct test_caller *c, const char *question, const char *content);

struct message_result ask_imported(struct test_caller *c, const char *name);
/* conv.o, and it has |content|. */
bool gets_content(struct test_caller *c, const char *content);
size_t listed_kernels(struct test_caller *c);
