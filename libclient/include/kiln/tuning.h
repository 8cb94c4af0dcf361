/* SPDX-License-Identifier: MIT */
#ifndef KILN_TUNING_H
#define KILN_TUNING_H

/*
 * Tuning databases: which solver took how long for a problem (find), and a solver's best parameters
 * (perf).
 *
 * The host keeps them once: what a user measured counts before what was measured on the host, and
 * that before what was imported from MIOpen's files.
 *
 * Ownership  a record is released with kiln_tuned_free; texts asked of it are borrowed and live as
 *            long
 * Threads    records are immutable and may be shared, and outlive their client
 * Freshness  every call asks kilnd: records change, so this process keeps none
 */
#include <kiln/client.h>
#include <kiln/problem.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum { KILN_TUNING_SYSTEM = 1, KILN_TUNING_HOST = 2, KILN_TUNING_USER = 3 }; /* of tuning records */

struct kiln_tuning_options {
    size_t size;             /* sizeof(struct kiln_tuning_options) */
    const char *database_id; /* kiln_device_database_id(): "gfx90a68", "sm_90_132" */
    const char *backend;     /* of find: "HIP", "CUDA", "OpenCL"; NULL: the device's, by its id */
    const char *driver;      /* versions here, to tell which records are stale; NULL: none is */
    const char *toolchain;
    int nearest;      /* 1: else a neighbour, by batch size, then by spatial size */
    int measurements; /* 1: with who measured it, and how */
};

struct kiln_tuned; /* the record of one problem */

/* KILN_E_NOT_FOUND where nobody knows. */
int kiln_find_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_tuning_options *options, int timeout_ms,
                  struct kiln_tuned **ret_tuned, struct kiln_error *err);
int kiln_perf_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_tuning_options *options, int timeout_ms,
                  struct kiln_tuned **ret_tuned, struct kiln_error *err);
/* Many at once: ret_tuned[i] is NULL where nobody knows problems[i].  On failure none is set. */
int kiln_find_get_batch(struct kiln_client *client, const struct kiln_problem *problems,
                        size_t count, const struct kiln_tuning_options *options, int timeout_ms,
                        struct kiln_tuned **ret_tuned, struct kiln_error *err);
int kiln_perf_get_batch(struct kiln_client *client, const struct kiln_problem *problems,
                        size_t count, const struct kiln_tuning_options *options, int timeout_ms,
                        struct kiln_tuned **ret_tuned, struct kiln_error *err);

void kiln_tuned_free(struct kiln_tuned *tuned);      /* accepts NULL */
int kiln_tuned_tier(const struct kiln_tuned *tuned); /* KILN_TUNING_SYSTEM, ... */
/* MIOpen's key of the record, and its text as it stands in the source. */
const char *kiln_tuned_key(const struct kiln_tuned *tuned);
const char *kiln_tuned_text(const struct kiln_tuned *tuned);
int kiln_tuned_is_stale(const struct kiln_tuned *tuned); /* by another driver or toolchain */
int kiln_tuned_is_near(const struct kiln_tuned *tuned);  /* a neighbour's */
/* How far away: larger batch by smaller, larger input area (volume) by smaller; 1 where equal. */
void kiln_tuned_distance(const struct kiln_tuned *tuned, double *ret_batch, double *ret_spatial);

struct kiln_tuned_entry {
    size_t size; /* in: sizeof(struct kiln_tuned_entry) */
    const char *solver;
    const char *algorithm;       /* of find */
    const char *params;          /* of perf; "" of find */
    double time_ms;              /* of find; of perf the measured median, 0 where it is not known */
    uint64_t workspace;          /* of find, bytes */
    uint32_t samples;            /* with |measurements|; 0: not known */
    double median_ms, spread_ms; /* half the middle half's width */
    uint64_t measured_at;        /* seconds since the epoch */
    uint32_t uid;                /* who measured it */
    const char *device_uuid, *device, *driver, *toolchain, *library; /* "" where not known */
    uint32_t clock_mhz;
};
unsigned kiln_tuned_count(const struct kiln_tuned *tuned);
/* In the record's order. */
int kiln_tuned_entry(const struct kiln_tuned *tuned, unsigned index,
                     struct kiln_tuned_entry *ret_entry, struct kiln_error *err);

/* ---- recording ---- */

struct kiln_measurement { /* one solver's */
    size_t size;          /* sizeof(struct kiln_measurement) */
    const char *solver;
    const char *algorithm; /* of find: "miopenConvolutionFwdAlgoWinograd" */
    const char *params;    /* of perf: comma-separated, as MIOpen writes the solver's */
    uint64_t workspace;    /* of find, bytes */
    uint32_t samples;      /* at least 1 */
    double median_ms, spread_ms;
};
struct kiln_recording {
    size_t size; /* sizeof(struct kiln_recording) */
    const char *database_id;
    const char *backend;     /* of find: "HIP", "CUDA", "OpenCL"; NULL: the device's, by its id */
    int tier;                /* KILN_TUNING_USER, or KILN_TUNING_HOST for members of kiln-publish */
    const char *device_uuid; /* where it was measured; NULL where not known */
    const char *device;
    const char *driver;
    const char *toolchain;
    const char *library; /* NULL: libkiln and its version */
    uint32_t clock_mhz;  /* 0: not known */
    const struct kiln_measurement *measurements;
    size_t measurement_count; /* at most 256 */
};
/* On the disk when it returns KILN_E_OK; of a program with databases built in, in memory until its
 * last client is closed.  Entries of other solvers in the problem's record stay;
 * the same solver measured before on the same device with the same driver and toolchain is joined
 * with this by statistics.  One call counts once, also where the connection was lost and it was
 * sent again. */
int kiln_find_put(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_recording *recording, int timeout_ms, struct kiln_error *err);
int kiln_perf_put(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_recording *recording, int timeout_ms, struct kiln_error *err);

/* ---- who tunes ---- */

/*
 * One process measures, or several share what is to be measured:
 *
 *   1. kiln_perf_get: nothing to do where it is known already
 *   2. kiln_lease_take: TAKEN and DONE lead back to 1.  Who is granted a lease after TAKEN asks
 *      kiln_perf_get once more: the others may have ended just before, and then the lease is new
 *   3. measure the share, kiln_lease_report, and again while that grants another share
 *
 * A lease belongs to the client's connection and ends with it: a process that dies leaves its share
 * to the others.  All threads of one client are one holder, with one share at a time: the second
 * report of a share counts for nothing and is answered with the share that is to be measured now.
 */
enum {
    KILN_LEASE_GRANTED, /* measure candidates first .. first + count - 1, then report */
    KILN_LEASE_TAKEN,   /* somebody else tunes it: take what is known, or ask again */
    KILN_LEASE_DONE,    /* it is tuned: kiln_perf_get knows */
};
struct kiln_lease_request {
    size_t size; /* sizeof(struct kiln_lease_request) */
    const char *database_id;
    const char *solver;
    uint32_t candidates; /* points of the solver's tuning space; 0: not to be shared */
    int share;           /* 1: take a share of what somebody began on an identical device */
    int wait_ms;         /* for who tunes it, within the call's time-out; 0: do not wait */
};
struct kiln_lease {
    size_t size; /* in: sizeof(struct kiln_lease) */
    uint64_t id;
    uint64_t connection;   /* which it belongs to */
    uint32_t first, count; /* the share; 0, 0 where it cannot be shared */
    double best_ms;        /* of all so far; 0: none */
    char best_params[1032];
};
/* |ret_state| is one of KILN_LEASE_*; |ret_lease| is filled when it is granted.  KILN_E_BUSY where
 * too many leases are held, or too many wait. */
int kiln_lease_take(struct kiln_client *client, const struct kiln_problem *problem,
                    const struct kiln_lease_request *request, int timeout_ms, int *ret_state,
                    struct kiln_lease *ret_lease, struct kiln_error *err);
/* The best of the share: |recording| with one measurement; NULL, or with none, where nothing ran.
 * The answer is the next share, KILN_LEASE_TAKEN while others still measure theirs, or
 * KILN_LEASE_DONE once all are in and the best of all is recorded.  KILN_E_NOT_FOUND when the
 * lease has ended with its connection. */
int kiln_lease_report(struct kiln_client *client, const struct kiln_lease *lease,
                      const struct kiln_recording *recording, int timeout_ms, int *ret_state,
                      struct kiln_lease *ret_next, struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
