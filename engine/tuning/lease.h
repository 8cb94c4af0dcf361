/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who tunes what: the first asker gets the lease, others share it, wait, or go on with what is
 * known.
 *
 * Role       keeps ranks from measuring the same candidates: hands out the candidates of a tuning
 *            space in shares, keeps the best that is reported, takes back what a dead holder had
 * Ownership  the table owns leases; a holder is named by the address of what stands for its
 *            connection, which is never followed
 * Threading  one thread (the engine's)
 *
 * A lease is for (uid, database id, problem, solver).  It ends when every candidate was reported
 * (lease_finish), or with its last holder.
 */
#include "common/err.h"
#include "common/problem.h"
#include "engine/tuning/tuning_db.h"

#define LEASES_MAX 4096u
#define LEASES_MAX_UID 512u
#define LEASE_WAITERS_MAX 1024u /* of one lease */
#define LEASE_PARAMS_MAX 1024u  /* letters */
#define LEASE_CANDIDATES_MAX (1u << 20)
#define LEASE_NAME_MAX 128u /* letters of a solver's name, of a database id */

struct lease_table;

struct lease_request {
    uint32_t uid;
    const char *database_id;
    const struct problem *problem;
    const char *solver;
    uint32_t candidates; /* of its tuning space; 0: the lease cannot be shared */
    bool share;          /* take a share where somebody has begun */
};

enum lease_state {
    LEASE_GRANTED, /* measure candidates first .. first + count - 1, then report */
    LEASE_TAKEN,   /* somebody else tunes it, and no share is left */
    LEASE_DONE,    /* every candidate was measured */
};

struct lease_best {     /* no params: none of the candidates ran */
    const char *params; /* borrowed; never NULL */
    double median_ms, spread_ms;
    uint32_t samples;
    struct tuning_origin origin; /* where it was measured, which need not be the last reporter's */
    uint64_t measured_at;
};

struct lease_answer {
    enum lease_state state;
    uint64_t lease;         /* names it in reports; 0 unless granted or done */
    uint32_t first, count;  /* the share; 0, 0 of a lease that cannot be shared */
    struct lease_best best; /* of all so far; borrowed until the next call */
};

KILN_MUST_CHECK enum kiln_code lease_table_create(struct lease_table **ret_table,
                                                  struct kiln_err *err);
void lease_table_destroy(struct lease_table *table); /* nobody waits any more */
KILN_DEFINE_AUTO(lease_table)

/* Who asks again gets the share it holds.  KILN_INVALID for another number of candidates than the
 * lease has, or a name too long; KILN_BUSY beyond a limit. */
KILN_MUST_CHECK enum kiln_code lease_ask(struct lease_table *table, const void *holder,
                                         const struct lease_request *request,
                                         struct lease_answer *ret_answer, struct kiln_err *err);

struct lease_waiter { /* the caller's; linked while it waits */
    struct lease_waiter *next;
    struct lease *lease;
    /* Once, never from within the call that links it, after it was unlinked: finished, or
     * (LEASE_TAKEN) free again or with shares to give, so ask again.  Does not call the table. */
    void (*reported)(struct lease_waiter *waiter, enum lease_state state);
};
/* False where nobody holds such a lease (any more).  KILN_BUSY is told by |ret_full|. */
bool lease_wait(struct lease_table *table, const struct lease_request *request,
                struct lease_waiter *waiter, bool *ret_full);
void lease_unwait(struct lease_waiter *waiter); /* accepts one that does not wait */

/* The holder's share that begins with |first| is done.  Where it holds another one (two of its
 * threads measured the same share, and one has reported), that is GRANTED again and nothing else
 * happens.  GRANTED: its next; TAKEN: nothing left to take, others still
 * measure; DONE: it was the last, ret_answer->best is the best of all, and lease_finish must
 * follow.  KILN_NOT_FOUND: no share of that lease is the holder's. */
KILN_MUST_CHECK enum kiln_code lease_report(struct lease_table *table, const void *holder,
                                            uint64_t lease, uint32_t first,
                                            const struct lease_best *best,
                                            struct lease_answer *ret_answer, struct kiln_err *err);
/* What a lease is for; borrowed.  False: there is no such lease. */
bool lease_show(const struct lease_table *table, uint64_t lease, struct lease_request *ret_request);
/* Tells its waiters LEASE_DONE and drops it: after the best is on the disk, or could not be put
 * there. */
void lease_finish(struct lease_table *table, uint64_t id);
/* The connection is gone: its shares return, and its leases without other holders end. */
void lease_leave(struct lease_table *table, const void *holder);
unsigned lease_count(const struct lease_table *table);
