/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Usage accounting: how much compile time was spent and saved, by user and by kind of kernel.
 *
 * Role       counts every compile, and every hit with the compile time that it saved
 * Ownership  owns its rows; rows that it returns are borrowed until the next call
 * Threading  the engine's thread
 *
 * The number of rows is limited. A new row replaces the one with the least compile time spent on
 * this host. Hits do not raise this time, so a client that fakes a million hits cannot save its
 * row. Usage without a row counts under "others", so totals stay exact.
 */
#include "common/base/hash_table.h"
#include "engine/store/kernel_metrics.h"

#include <sys/types.h>

#define ACCOUNTING_USERS_MAX 4096
#define ACCOUNTING_KINDS_MAX 512 /* including kind 0, the row "others" */
#define ACCOUNTING_PRIVATE "(private)"
#define ACCOUNTING_RTC "(NVRTC, hiprtc or comgr)"
/* stands for all unknown targets in rows of ACCOUNTING_RTC */
#define ACCOUNTING_OTHER_TARGET "(other)"
/* The most compile time that one hit can count as saved. Packages state compile times that kiln did
 * not measure. */
#define ACCOUNTING_WORTH_MAX_US 1000000000u

struct accounting_user {
    struct hash_link link;
    uint32_t uid;
    bool is_changed;
    struct kernel_sums sums;
};

struct accounting_kind {
    uint32_t number; /* a kind that later takes this place in |kinds| gets a larger number */
    bool is_changed;
    uint64_t hash;
    struct object_origin what;
    struct kernel_sums sums;
};

struct accounting {
    struct accounting_user *users;
    struct hash_table by_uid; /* empty in a copy */
    unsigned user_count;
    struct accounting_user others;
    struct accounting_user *latest;
    struct accounting_kind *kinds;
    unsigned kind_count;
    uint64_t since;
    bool rewrites_users; /* a row was replaced: the next write deletes all stored rows first */
    bool rewrites_kinds;
    bool has_changed;
    /* The members below belong to accounting_tasks.c. */
    bool is_busy;
    bool is_loaded;
    uint64_t written_at_ns;
};

KILN_MUST_CHECK enum kiln_code accounting_create(struct accounting **ret_accounting,
                                                 struct kiln_err *err);
/* The copy is only for reading, on any thread. Returns NULL if memory runs out. */
struct accounting *accounting_copy(const struct accounting *accounting);
void accounting_destroy(struct accounting *accounting);
KILN_DEFINE_AUTO(accounting)

struct accounting_user *accounting_user_of(struct accounting *accounting, uint32_t uid);
/* Returns the number of the kind, for object.accounting_kind. */
uint32_t accounting_kind_of(struct accounting *accounting, const struct object_origin *what);

static inline uint64_t accounting_worth(uint64_t compile_ns)
{
    uint64_t us = compile_ns / 1000;
    return us < ACCOUNTING_WORTH_MAX_US ? us : ACCOUNTING_WORTH_MAX_US;
}

static inline void accounting_add_hit(struct kernel_sums *sums, uint64_t worth_us)
{
    sums->saved_us += worth_us;
    sums->hits++;
}

static inline struct accounting_kind *accounting_kind_at(struct accounting *accounting,
                                                         uint32_t number)
{
    struct accounting_kind *kind = &accounting->kinds[number % ACCOUNTING_KINDS_MAX];
    return kind->number == number ? kind : &accounting->kinds[0];
}

/* Called for every hit in the hot set, so it takes only a few instructions. */
static inline void accounting_hit(struct accounting *accounting, uint32_t uid, uint32_t number,
                                  uint64_t worth_us)
{
    struct accounting_user *user = accounting->latest;
    if (!user || user->uid != uid)
        user = accounting->latest = accounting_user_of(accounting, uid);
    struct accounting_kind *kind = accounting_kind_at(accounting, number);
    accounting_add_hit(&user->sums, worth_us);
    accounting_add_hit(&kind->sums, worth_us);
    user->is_changed = kind->is_changed = accounting->has_changed = true;
}

void accounting_compiled(struct accounting *accounting, uint32_t uid, uint32_t number,
                         uint64_t compile_us);
/* Adds a stored row of an earlier kilnd to the sums that this kilnd has counted so far. */
void accounting_take(struct accounting *accounting, const struct kernel_accounting_row *row);
void accounting_touch_all(struct accounting *accounting);
/* Replaces unprintable bytes by '?', because names come from users and files. */
void accounting_clean(char *name);
struct kernel_sums accounting_total(const struct accounting *accounting);
void accounting_sums_add(struct kernel_sums *sums, const struct kernel_sums *more);
