/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tuning leases. The first client that asks to tune a problem gets the lease. Other clients take a
 * share of the lease's candidates, wait for the result, or continue with the records that exist.
 *
 * Role       prevents the ranks of a job from measuring the same candidates of a tuning space
 * Ownership  the table owns the leases. A holder is a client, identified by the address of its
 *            connection's object. This address is never dereferenced
 * Threading  one thread (the engine's)
 *
 * A lease is for (uid, database id, problem, solver). It ends when every candidate was reported
 * (lease_finish), or when its last holder leaves and nobody waits.
 */
#include "common/base/err.h"
#include "common/base/list.h"
#include "common/protocol/problem.h"
#include "engine/tuning/tuning_db.h"

#define LEASES_MAX 4096u
#define LEASES_MAX_UID 512u
#define LEASE_WAITERS_MAX 1024u
#define LEASE_PARAMS_MAX 1024u
#define LEASE_CANDIDATES_MAX (1u << 20)
#define LEASE_NAME_MAX 128u /* characters of a solver's name or of a database id */

struct lease_table;

struct lease_request {
    uint32_t uid;
    const char *database_id;
    const struct problem *problem;
    const char *solver;
    uint32_t candidates; /* number of candidates in the tuning space; 0: they cannot be divided into
                          * shares */
    bool share;          /* the client also accepts a share of another client's lease */
    bool more;           /* the client takes a share in addition to those that it holds */
};

enum lease_state {
    LEASE_GRANTED, /* measure candidates first .. first + count - 1, then report */
    LEASE_TAKEN,   /* another client tunes the problem, and no share is left */
    LEASE_DONE,
};

struct lease_best {     /* |params| is empty if no candidate ran */
    const char *params; /* borrowed; never NULL */
    double median_ms, spread_ms;
    uint32_t samples;
    struct tuning_origin origin;
    uint64_t measured_at;
};

struct lease_answer {
    enum lease_state state;
    uint64_t lease;         /* 0 unless granted or done */
    uint32_t first, count;  /* the share; both 0 for a lease that cannot be shared */
    struct lease_best best; /* the best result so far; borrowed until the next call */
};

KILN_MUST_CHECK enum kiln_code lease_table_create(struct lease_table **ret_table,
                                                  struct kiln_err *err);
void lease_table_destroy(struct lease_table *table); /* no client may be waiting */
KILN_DEFINE_AUTO(lease_table)

/* Requests a lease or a share of one. A holder that asks again gets the share that it already
 * holds, unless it asks for more. Returns KILN_INVALID if the number of candidates differs from the
 * lease's, or a name is too long, and KILN_BUSY if a limit is reached. */
KILN_MUST_CHECK enum kiln_code lease_ask(struct lease_table *table, const void *holder,
                                         const struct lease_request *request,
                                         struct lease_answer *ret_answer, struct kiln_err *err);

struct lease_waiter { /* owned by the caller, which zeroes it; linked while it waits */
    struct list_link link;
    struct lease *lease;
    /* Called once, after the waiter was unlinked, and never during lease_wait. LEASE_TAKEN means
     * that a holder left, so the waiting client should call lease_ask again. The callback must not
     * call functions of the table. */
    void (*reported)(struct lease_waiter *waiter, enum lease_state state);
};
/* Makes |waiter| wait for the lease. Returns false if there is no lease, or if too many clients
 * wait. |ret_full| is true in the second case. */
bool lease_wait(struct lease_table *table, const struct lease_request *request,
                struct lease_waiter *waiter, bool *ret_full);
void lease_unwait(struct lease_waiter *waiter); /* accepts a waiter that does not wait */

struct lease_report {
    uint64_t lease;
    uint32_t first;
    struct lease_best best;
};

/*
 * Completes the holder's share that begins with |report->first|. The state of the answer:
 *   - GRANTED: the answer has the holder's next share. If two threads of the holder measured the
 *     same share, the second report only returns the share that the holder has now.
 *   - TAKEN: no share is left, but other holders still measure, or this holder has further shares.
 *   - DONE: this was the last share. ret_answer->best is the best of all results, and the caller
 *     must call lease_finish.
 * Returns KILN_NOT_FOUND if the holder has no such share of that lease.
 */
KILN_MUST_CHECK enum kiln_code lease_report(struct lease_table *table, const void *holder,
                                            const struct lease_report *report,
                                            struct lease_answer *ret_answer, struct kiln_err *err);
/* Returns the request of a lease, with borrowed texts, or false if there is no such lease. */
bool lease_show(const struct lease_table *table, uint64_t lease, struct lease_request *ret_request);
/* Ends a lease. Call this function after storing the best result, even if storing it failed. */
void lease_finish(struct lease_table *table, uint64_t id);
/* Makes the holder's shares available to other clients, and ends leases that have neither another
 * holder nor a waiter. */
void lease_leave(struct lease_table *table, const void *holder);
unsigned lease_count(const struct lease_table *table);
