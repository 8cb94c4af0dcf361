/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The internals of the request why_miss, shared by admin_why.c, why_question.c and why_compare.c.
 *
 * Role       describes one request: the wanted kernel, where it is, and the kernels nearest to it
 * Ownership  the request owns everything but the engine
 * Threading  the engine's thread reads the question; a work queue looks up and compares
 */
#include "engine/service/kernels/name_key.h"
#include "engine/service/requests/admin.h"
#include "engine/service/requests/plan_choose.h"

struct wanted_program {
    struct digest key;
    /* Texts are static, or stored in struct why or in the members below. */
    struct kernel_record record;
    char *options;
    struct buffer name, args;    /* name in packages and imported caches */
    char *name_text, *args_text; /* owned: name and args as C strings */
    bool is_hot;
    bool is_in_fleet;
    char fleet_variant[192]; /* "for gfx90a:xnack-": a variant that the fleet has; "": none */
};

struct known_toolchain {
    struct digest identity;
    char version[64];
};

struct why {
    struct deferred base;
    struct json *nearest;
    struct target target;
    struct toolchain toolchain; /* a copy; without a compiler, only the name "package" is set */
    struct problem problem;     /* set, like |ids|, if the question names a problem */
    struct plan_ids ids;
    char database_id[DATABASE_ID_MAX];
    bool use_packages;
    struct kiln_err why_not_compile; /* has a code if no compiler can build for the target */
    /* the question is a kernel's name in MIOpen; |programs| has only this kernel */
    bool by_name;
    uint32_t program_count; /* 0: the question is a key */
    struct wanted_program programs[LIMIT_PLAN_KERNELS];
    struct digest key;
    bool is_hot;
    bool fleet_loads; /* an index of the fleet is not here yet, so the answer is incomplete */
    char fleet_target[LIMIT_TARGET_TEXT]; /* the fleet has |key| for this target; "": not known */
    bool found;
    enum tier tier;
    char package[PACKAGE_NAME_MAX]; /* "": no package has the kernel */
    /* Package that has the kernel for a device with another number of compute units; "": none. */
    char elsewhere[PACKAGE_NAME_MAX];
    char elsewhere_id[DATABASE_ID_MAX];
    struct known_toolchain here[TOOLCHAINS_MAX];
    size_t here_count;
    /* |nearest| already has the kernels that were imported under the name of |missing|. */
    bool namesakes_reported;
    const struct wanted_program *missing; /* one of |programs|; NULL: the question is a key */
    struct kernel_record wanted;
    char *texts[5]; /* owned: target, toolchain, program, options, database id */
};

/* If the question is a problem, why_add_programs adds its programs once the toolchain is known. */
KILN_MUST_CHECK enum kiln_code why_read_question(struct why *w, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code why_ask_for_toolchain(struct deferred *d);
KILN_MUST_CHECK enum kiln_code why_add_programs(struct why *w, struct kiln_err *err);

/* Both functions run on the engine's thread, and only use indices that are in memory. */
void why_look_in_fleet(struct why *w, const struct solution_program *program,
                       struct wanted_program *p);
void why_look_for_key_in_fleet(struct why *w);

/* The first two functions are callbacks of the store. Their |context| is a struct why. */
void why_compare(void *context, const struct kernel_record *there);
/* Skips kernels that do not have the missing kernel's name. */
void why_compare_namesake(void *context, const struct kernel_record *there);
void why_name_elsewhere(struct why *w);
