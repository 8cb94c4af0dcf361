/* SPDX-License-Identifier: MIT */
#pragma once

#include "engine/compile/toolchain.h"
#include "engine/miopen/kern_db.h"
#include "engine/package/package_writer.h"
#include "engine/solver/solver.h"
#include "tests/support/engine_fixture.h"

struct kernel_row {
    const char *name, *args, *content;
    size_t size; /* size of |content|; 0 if it is NUL-terminated */
};
#define TEXT_KERNEL(name_, args_, content_)                     \
    {                                                           \
        .name = (name_), .args = (args_), .content = (content_) \
    }

/* A code object for gfx90a with the ELF flags |features| (AMD_*), which contains the string
 * |mark|. */
#define AMD_OBJECT_MAX 256
#define AMD_XNACK_EITHER 0x100u
#define AMD_XNACK_OFF 0x200u
#define AMD_XNACK_ON 0x300u
struct amd_object {
    uint8_t bytes[AMD_OBJECT_MAX];
};
struct amd_object amd_object(unsigned features, const char *mark);

/* Writes a package file with |rows|. |path| must not exist. */
void write_kernel_file(const char *path, const struct kernel_row *rows, size_t count);
/* Checks that |path| is undamaged and has exactly |rows|, in this order. */
void assert_kernel_file(const char *path, const struct kernel_row *rows, size_t count);
void assert_same_bytes(const char *path, const char *other);
void flip_bit(const char *path, struct bytes content);
/* Returns a sealed memory file with the content of |path|. The caller closes it. */
int open_copy(const char *path);
/* Returns a sealed memory file with |content|. The caller closes it. */
int sealed_file(struct bytes content);
void write_object(const struct test_caller *c, size_t index, size_t number, const char *path);

/* Puts a package into the package directory by a rename, as a package manager does. The engine
 * notices at engine_fixture_rescan. */
void put_package(struct engine_fixture *f, const char *file_name, const struct kernel_row *rows,
                 size_t count);
/* Returns the path of a file in the package directory, valid until the next call. */
const char *package_path(const struct engine_fixture *f, const char *file_name);

struct problem small_problem(uint32_t channels);

struct program_names {
    struct buffer name, args; /* freed by program_names_done */
    struct digest key;        /* the kernel's key if it is compiled with |tc| */
    struct solution_program program;
};

/* Finds the name and the arguments by which a plan looks up its first program in packages. |tc| may
 * be NULL. */
void program_names_find(const struct problem *problem, const char *target,
                        const struct toolchain *tc, struct program_names *ret_names);
/* The same for a plan with |solver|. */
void program_names_find_of(const struct problem *problem, const char *target, const char *solver,
                           struct program_names *ret_names);
void program_names_done(struct program_names *names);

void send_plan(struct test_caller *c, uint64_t id, const struct message_plan *plan);
/* Checks that the |index|-th reply is a plan. Returns the plan's first object. */
struct message_result planned_result(const struct test_caller *c, size_t index);
