/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the kernels that were found had cost to compile, by user and by what was found.
 *
 * Role       books every hit with the compile time of its kernel, and every compile; as much as it
 *            keeps fits in memory, and goes to the store in batches (ledger_tasks.h)
 * Ownership  owns its rows; those handed out are borrowed until the next call
 * Threading  the engine's thread
 *
 * Bounded: LEDGER_USERS_MAX users, and LEDGER_KINDS_MAX pairs of target and program.  The one for
 * which compilers worked least here makes room for a new one: that is the one sum which a loop of
 * hits does not raise.  What has no row is booked under "others", so that sums stay exact.
 */
#include "engine/store/kernel_figures.h"

#include <sys/types.h>

#define LEDGER_USERS_MAX 4096
#define LEDGER_KINDS_MAX 512       /* with that of the others, which is the first */
#define LEDGER_PRIVATE "(private)" /* program of what somebody imported for himself */
/* No hit is worth more: what a package states of its kernels is not measured here. */
#define LEDGER_WORTH_MAX_US 1000000000u

struct ledger_user {
    uint32_t uid;
    bool is_changed; /* since it was written down */
    struct kernel_sums sums;
};

struct ledger_kind {
    uint32_t number; /* of the kind that has this place: a newer one has a larger number */
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
    struct ledger_user *latest; /* borrowed: who was booked last */
    struct ledger_kind *kinds;  /* owned; place 0 are the others */
    unsigned kind_count;
    uint64_t since;      /* seconds since the epoch */
    bool rewrites_users; /* one gave way: its row has to go */
    bool rewrites_kinds; /* likewise */
    bool has_changed;
    /* Of ledger_tasks.c. */
    bool is_busy; /* it is being read or written */
    bool is_loaded;
    uint64_t written_at_ns;
};

KILN_MUST_CHECK enum kiln_code ledger_create(struct ledger **ret_ledger, struct kiln_err *err);
/* Its sums as they are, to be read anywhere: nothing can be booked in it.  NULL when out of memory.
 */
struct ledger *ledger_copy(const struct ledger *ledger);
void ledger_destroy(struct ledger *ledger);
KILN_DEFINE_AUTO(ledger)

/* The user's row, perhaps a new one. */
struct ledger_user *ledger_user_of(struct ledger *ledger, uint32_t uid);
/* The number of the kind, perhaps a new one: for object.ledger_kind. */
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

/* Some instructions: of every fetch that is found in memory. */
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

/* One that made an object. */
void ledger_compiled(struct ledger *ledger, uint32_t uid, uint32_t number, uint64_t compile_us);
/* What earlier daemons wrote down, added to what was booked since this one started. */
void ledger_take(struct ledger *ledger, const struct kernel_ledger_row *row);
/* Everything is to be written down again. */
void ledger_touch_all(struct ledger *ledger);
/* Names come from users and files: what does not print becomes '?'. */
void ledger_clean(char *name);
/* Sums of all users. */
struct kernel_sums ledger_total(const struct ledger *ledger);
void ledger_sums_add(struct kernel_sums *sums, const struct kernel_sums *more);
