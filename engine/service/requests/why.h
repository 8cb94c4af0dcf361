/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The internals of the request why_miss, shared by admin_why.c, why_question.c and why_compare.c.
 *
 * Role       struct why describes one request: which kernel is wanted, where it is, and which
 *            kernels are nearest to it
 * Ownership  the request owns everything but the engine
 * Threading  the engine's thread reads the question; a work queue looks up and compares
 */
#include "engine/service/kernels/name_key.h"
#include "engine/service/requests/admin.h"
#include "engine/service/requests/plan_choose.h"

struct wanted_program {
    struct digest key;
    /* The texts of |record| are static, or stored in struct why or in the members below. */
    struct kernel_record record;
    char *options;               /* owned */
    struct buffer name, args;    /* its name in packages and imported caches */
    char *name_text, *args_text; /* owned: name and args as C strings */
    bool is_hot;                 /* the hot set has it */
};

struct known_toolchain {
    struct digest identity;
    char version[64];
};

struct why {
    struct deferred base; /* first member; in the group |admin| */
    struct json *nearest; /* owned until it is in the answer */
    struct target target;
    struct toolchain toolchain; /* a copy; without a compiler, only the name "package" is set */
    struct problem problem;     /* set if the question names a problem, as is |ids| */
    struct plan_ids ids;
    char database_id[DATABASE_ID_MAX];
    bool use_packages;
    struct kiln_err why_not_compile; /* has a code if no compiler can build for the target */
    bool by_name;                    /* the question is a MIOpen name; |programs| has only the
                                      * kernel of this name */
    uint32_t program_count;          /* 0: the question is a key */
    struct wanted_program programs[LIMIT_PLAN_KERNELS];
    struct digest key;
    bool is_hot; /* the hot set has the kernel of |key| */
    bool found;
    enum tier tier;                 /* where it was found */
    char package[PACKAGE_NAME_MAX]; /* the package that has it; "": none */
    /* The package that has the kernel for other compute units; "": none. */
    char elsewhere[PACKAGE_NAME_MAX];
    char elsewhere_id[DATABASE_ID_MAX];
    struct known_toolchain here[TOOLCHAINS_MAX];
    size_t here_count;
    /* |nearest| already has kernels that were imported under the name of |missing|. */
    bool namesakes_reported;
    const struct wanted_program *missing; /* one of |programs|, with which the nearest kernels are
                                           * compared */
    struct kernel_record wanted;          /* its texts point into |texts| */
    char *texts[5]; /* owned: target, toolchain, program, options, database id */
};

/* why_question.c: reads the question. If it is a problem, its programs are added once the toolchain
 * is known (struct toolchain_need). */
KILN_MUST_CHECK enum kiln_code why_read_question(struct why *w, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code why_ask_for_toolchain(struct deferred *d);
KILN_MUST_CHECK enum kiln_code why_add_programs(struct why *w, struct kiln_err *err);

/* why_compare.c: each function adds to |nearest|.  The first two are callbacks, called by the store
 * for each kernel with a struct why as |context|. */
void why_compare(void *context, const struct kernel_record *there);
/* Like why_compare, but skips kernels that do not have the missing kernel's name. */
void why_compare_namesake(void *context, const struct kernel_record *there);
/* Adds the package that has the kernel for other compute units. */
void why_name_elsewhere(struct why *w);
