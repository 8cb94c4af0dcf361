/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Usage accounting: the compile time of the kernels that were found, by user and by kind of kernel.
 *
 * Role       counts every hit with the compile time of its kernel, and every compile; stays in
 *            memory and is written to the store in batches (ledger_tasks.h)
 * Ownership  owns its rows; rows that it returns are borrowed until the next call
 * Threading  the engine's thread
 *
 * Bounded: LEDGER_USERS_MAX users, and LEDGER_KINDS_MAX pairs of target and program.  A new row
 * replaces the one with the least compile time spent here, because that is the only sum that a loop
 * of hits does not raise.  Usage without a row is counted under "others", so totals stay exact.
 */
#include "engine/store/kernel_figures.h"

#include <sys/types.h>

#define LEDGER_USERS_MAX 4096
#define LEDGER_KINDS_MAX 512       /* including the first, that of the others */
#define LEDGER_PRIVATE "(private)" /* program of privately imported kernels */
/* The most that one hit counts: compile times that a package states were not measured here. */
#define LEDGER_WORTH_MAX_US 1000000000u

struct ledger_user {
    uint32_t uid;
    bool is_changed; /* since the row was last written to the store */
    struct kernel_sums sums;
};

struct ledger_kind {
    uint32_t number; /* of the kind in this place: a newer kind has a larger number */
    bool is_changed;
    uint64_t hash;
    struct object_origin what;
    struct kernel_sums sums;
};

struct ledger {
    struct ledger_user *users; /* owned, like the next; by place */
    uint16_t *places;          /* 1 + the place of a user, by a hash of the uid; 0: free */
    unsigned user_count;
    struct ledger_user others;  /* users without a row */
    struct ledger_user *latest; /* borrowed: the user counted last */
    struct ledger_kind *kinds;  /* owned; place 0 are the others */
    unsigned kind_count;
    uint64_t since;      /* seconds since the epoch */
    bool rewrites_users; /* a user's row was replaced: its stored row must be deleted */
    bool rewrites_kinds; /* likewise */
    bool has_changed;
    /* Of ledger_tasks.c. */
    bool is_busy; /* it is being read or written */
    bool is_loaded;
    uint64_t written_at_ns;
};

KILN_MUST_CHECK enum kiln_code ledger_create(struct ledger **ret_ledger, struct kiln_err *err);
/* Copies the current sums, to be read on any thread; nothing can be counted in the copy. NULL: out
 * of memory. */
struct ledger *ledger_copy(const struct ledger *ledger);
void ledger_destroy(struct ledger *ledger);
KILN_DEFINE_AUTO(ledger)

/* Finds the user's row, or adds one. */
struct ledger_user *ledger_user_of(struct ledger *ledger, uint32_t uid);
/* Finds the number of the kind for object.ledger_kind, or adds the kind. */
uint32_t ledger_kind_of(struct ledger *ledger, const struct object_origin *what);

static inline uint64_t ledger_worth(uint64_t compile_ns)
{
    uint64_t us = compile_ns / 1000;
    return us < LEDGER_WORTH_MAX_US ? us : LEDGER_WORTH_MAX_US;
}

static inline void ledger_add_hit(struct kernel_sums *sums, uint64_t worth_us)
{
    sums->saved_us += worth_us;
    sums->hits++;
}

static inline struct ledger_kind *ledger_kind_at(struct ledger *ledger, uint32_t number)
{
    struct ledger_kind *kind = &ledger->kinds[number % LEDGER_KINDS_MAX];
    return kind->number == number ? kind : &ledger->kinds[0];
}

/* A few instructions: every fetch that is found in memory runs this. */
static inline void ledger_hit(struct ledger *ledger, uint32_t uid, uint32_t number,
                              uint64_t worth_us)
{
    struct ledger_user *user = ledger->latest;
    if (!user || user->uid != uid)
        user = ledger->latest = ledger_user_of(ledger, uid);
    struct ledger_kind *kind = ledger_kind_at(ledger, number);
    ledger_add_hit(&user->sums, worth_us);
    ledger_add_hit(&kind->sums, worth_us);
    user->is_changed = kind->is_changed = ledger->has_changed = true;
}

/* Counts a compile that made an object. */
void ledger_compiled(struct ledger *ledger, uint32_t uid, uint32_t number, uint64_t compile_us);
/* Adds a row that an earlier daemon wrote to what was counted since this one started. */
void ledger_take(struct ledger *ledger, const struct kernel_ledger_row *row);
/* Marks every row to be written again. */
void ledger_touch_all(struct ledger *ledger);
/* Replaces unprintable bytes by '?', because names come from users and files. */
void ledger_clean(char *name);
/* Sums of all users. */
struct kernel_sums ledger_total(const struct ledger *ledger);
void ledger_sums_add(struct kernel_sums *sums, const struct kernel_sums *more);
