/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpen's kernel files and kiln's packages, for the tests of the requests that read and make them.
 */
#include "engine/compile/toolchain.h"
#include "engine/miopen/kern_db.h"
#include "engine/package/package_writer.h"
#include "engine/solver/solver.h"
#include "tests/support/engine_fixture.h"

struct kernel_row {
    const char *name, *args, *content;
    size_t size; /* of content; 0: it is a text */
};
#define TEXT_KERNEL(name_, args_, content_)                     \
    {                                                           \
        .name = (name_), .args = (args_), .content = (content_) \
    }

/* A code object for gfx90a with |features| as ELF flags have them (AMD_*), and |mark| in it. */
#define AMD_OBJECT_MAX 256
#define AMD_XNACK_EITHER 0x100u
#define AMD_XNACK_OFF 0x200u
#define AMD_XNACK_ON 0x300u
struct amd_object {
    uint8_t bytes[AMD_OBJECT_MAX];
};
struct amd_object amd_object(unsigned features, const char *mark);

/* A .kdb or .ukdb at |path|, which must not exist.  Short contents are stored as they are. */
void write_kernel_file(const char *path, const struct kernel_row *rows, size_t count);
/* Every row of |path| is as in |rows|, in that order, and checks out. */
void assert_kernel_file(const char *path, const struct kernel_row *rows, size_t count);
void assert_same_bytes(const char *path, const char *other);
/* Flips one bit where |path| holds |content|. */
void flip_bit(const char *path, struct bytes content);
/* A sealed memory file with the bytes of |path|; the caller's. */
int open_copy(const char *path);
/* |content| as a sealed memory file. */
int sealed_file(struct bytes content);
void write_object(const struct test_caller *c, size_t index, size_t number, const char *path);

/* Puts a package into the directory of installed ones, as a package manager does: whole or not at
 * all. The engine knows of it after engine_fixture_rescan. */
void put_package(struct engine_fixture *f, const char *file_name, const struct kernel_row *rows,
                 size_t count);
/* Where it lies then; valid until the next call. */
const char *package_path(const struct engine_fixture *f, const char *file_name);

/* Descriptors that this process has open. */
unsigned open_descriptors(void);

/* ---- what plans ask packages for ---- */

/* A convolution of |channels| in and out, 3x3, on 8x8. */
struct problem small_problem(uint32_t channels);

struct program_names {        /* of one program of a solution */
    struct buffer name, args; /* program_names_done */
    struct digest key;        /* with the toolchain that was given */
    struct solution_program program;
};

/* The first program of what a plan for |problem| on |target| needs; |tc| may be NULL. */
void program_names_find(const struct problem *problem, const char *target,
                        const struct toolchain *tc, struct program_names *ret_names);
void program_names_done(struct program_names *names);

/* Sends a plan; what comes of it are replies. */
void send_plan(struct test_caller *c, uint64_t id, const struct message_plan *plan);
/* The |index|-th reply is a plan, and its first object's outcome. */
struct message_result planned_result(const struct test_caller *c, size_t index);
