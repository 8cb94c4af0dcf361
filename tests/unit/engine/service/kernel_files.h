/* SPDX-License-Identifier: MIT */
#pragma once

#include "engine/compile/toolchain.h"
#include "engine/miopen/kern_db.h"
#include "engine/package/package_writer.h"
#include "engine/solver/solver.h"
#include "tests/support/engine_fixture.h"

struct kernel_row {
    const char *name, *args, *content;
    size_t size; /* size of the content; 0 if it is a NUL-terminated string */
};
#define TEXT_KERNEL(name_, args_, content_)                     \
    {                                                           \
        .name = (name_), .args = (args_), .content = (content_) \
    }

/* A code object for gfx90a. |features| are ELF flags (AMD_*), and |mark| is a string inside the
 * object. */
#define AMD_OBJECT_MAX 256
#define AMD_XNACK_EITHER 0x100u
#define AMD_XNACK_OFF 0x200u
#define AMD_XNACK_ON 0x300u
struct amd_object {
    uint8_t bytes[AMD_OBJECT_MAX];
};
struct amd_object amd_object(unsigned features, const char *mark);

/* |path| must not exist. */
void write_kernel_file(const char *path, const struct kernel_row *rows, size_t count);
/* |path| must have exactly |rows|, in this order and undamaged. */
void assert_kernel_file(const char *path, const struct kernel_row *rows, size_t count);
void assert_same_bytes(const char *path, const char *other);
void flip_bit(const char *path, struct bytes content);
/* Returns a sealed memory file with the bytes of |path|. The caller closes it. */
int open_copy(const char *path);
/* Returns a sealed memory file with |content|. The caller closes it. */
int sealed_file(struct bytes content);
void write_object(const struct test_caller *c, size_t index, size_t number, const char *path);

/* Puts a package into the package directory atomically, as a package manager does. The engine
 * uses the package after engine_fixture_rescan. */
void put_package(struct engine_fixture *f, const char *file_name, const struct kernel_row *rows,
                 size_t count);
/* The path is valid until the next call. */
const char *package_path(const struct engine_fixture *f, const char *file_name);

struct problem small_problem(uint32_t channels);

struct program_names {
    struct buffer name, args; /* freed by program_names_done */
    struct digest key;        /* key for the given toolchain */
    struct solution_program program;
};

/* Finds the names of the first program of a plan. |tc| may be NULL. */
void program_names_find(const struct problem *problem, const char *target,
                        const struct toolchain *tc, struct program_names *ret_names);
void program_names_done(struct program_names *names);

void send_plan(struct test_caller *c, uint64_t id, const struct message_plan *plan);
/* The |index|-th reply must be a plan. Returns its first object. */
struct message_result planned_result(const struct test_caller *c, size_t index);
