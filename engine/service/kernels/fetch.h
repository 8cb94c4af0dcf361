/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The fetch of one kernel from the hot set, the store, packages or a compiler, with single flight.
 *
 * Role       looks a kernel up once and compiles it once, however many callers request it
 * Ownership  the caller keeps a ticket valid until |ready| is called or the fetch is cancelled
 * Threading  the engine's thread
 *
 *   LOOKING --found, copied--> (delivered)
 *      |--miss, a source is known--> FLEET --found--> (delivered, stored)
 *      |                               |--miss, failure, too slow--v
 *      |--no fleet----------------> QUEUED --object--> SEALING --> (delivered, stored)
 *      `--no source---> (NOT_FOUND)   `--failure--> (delivered, remembered)
 */
#include "engine/service/kernels/name_key.h"

struct fetch_result {
    struct kiln_err err; /* if the code is KILN_OK, |tier|, |key| and |object| are set */
    enum tier tier;
    struct digest key;
    struct object *object; /* borrowed for the call; NULL on failure */
    const char *log;
    enum miss_reason reason;
};

struct fetch_ticket {
    uid_t uid;
    enum priority priority;
    bool no_object; /* the caller needs only the other members of the result, not the object */
    /* the look-up is for a compile that a client does itself; such look-ups are counted
     * separately */
    bool is_rtc;
    bool is_trial;  /* the caller goes on without the kernel: count the fetch only if it is a hit */
    uint64_t batch; /* 0: no batch. Several hits of one kernel in a batch count as one */
    /* Called with the result, but not before the function to which the ticket was passed has
     * returned. */
    void (*ready)(struct fetch_ticket *ticket, const struct fetch_result *result);
    struct inflight *inflight;
    uint64_t began_ns;
    struct list_link waiting;
};

/* Members are borrowed for the call; a fetch that must wait copies what it needs. */
struct fetch_options {
    struct digest key; /* used if |job| is NULL or job->is_program; otherwise computed from |job| */
    /* Has canonical options and checked headers. NULL: there is no source to compile. */
    const struct compile_job *job;
    const struct toolchain *tc;      /* borrowed; set if |job| is set */
    const struct kernel_name *name;  /* NULL: packages are searched by key only */
    const struct digest *shared_key; /* the key that the kernel has if it is stored for all users;
                                        NULL: none */
    bool only_stored;                /* do not join a compile of this key that is in progress */
    bool no_cache; /* compile even if a result is stored, and do not store the new result */
};

/* Returns true if *ret_result has the answer, whose object is borrowed until the next call into
 * the engine. Returns false if the ticket's |ready| will be called. */
bool fetch_begin(struct engine *e, const struct fetch_options *options, struct fetch_ticket *ticket,
                 struct fetch_result *ret_result);
/* These two functions do the same as fetch_begin, in two steps. So the caller need not allocate a
 * ticket for an answer from memory. fetch_at_hand answers only from memory. If it returns false,
 * pass *ret_key, and the ticket or a copy of it, to fetch_start. */
bool fetch_at_hand(struct engine *e, const struct fetch_options *options,
                   struct fetch_ticket *ticket, struct digest *ret_key,
                   struct fetch_result *ret_result);
bool fetch_start(struct engine *e, const struct fetch_options *options, const struct digest *key,
                 struct fetch_ticket *ticket, struct fetch_result *ret_result);
/* Counts a fetch that failed with |err| before fetch_start could be called. */
void fetch_refuse(struct engine *e, const struct fetch_ticket *ticket, const struct digest *key,
                  const struct kiln_err *err);
/* Removes the ticket, whose |ready| is then never called. If no other ticket waits for the same
 * kernel, also drops work that has not begun. */
void fetch_cancel(struct engine *e, struct fetch_ticket *ticket);
