/* SPDX-License-Identifier: MIT */
#ifndef KILN_TUNING_H
#define KILN_TUNING_H

/*
 * Tuning databases: how long each solver took for a problem (find), and a solver's best parameters
 * (perf).
 *
 * kilnd stores one set of records per host.  A user's own measurements have priority over the
 * host's measurements.  The host's measurements have priority over records imported from MIOpen's
 * files.
 *
 * Ownership  A record is released with kiln_tuned_free.  The texts of a record are borrowed and
 *            stay valid until the record is released.
 * Threads    Records are immutable, may be shared, and outlive their client.
 * Freshness  Every call sends a request to kilnd.  This process caches no records, because they
 *            change.
 */
#include <kiln/client.h>
#include <kiln/problem.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum {
    KILN_TUNING_SYSTEM = 1,
    KILN_TUNING_HOST = 2,
    KILN_TUNING_USER = 3
}; /* the tiers of tuning records */

struct kiln_tuning_options {
    size_t size;
    const char *database_id; /* such as "gfx90a68" or "sm_90_132"; see kiln_device_database_id() */
    const char *backend; /* for find: "HIP", "CUDA", "OpenCL"; NULL: the backend of |database_id| */
    /* The current driver and toolchain versions.  Records made with other versions are stale.
     * NULL: versions are not compared. */
    const char *driver;
    const char *toolchain;
    /* 1: if the problem has no record, use the record of the most similar problem.  Batch sizes are
     * compared first, then spatial sizes. */
    int nearest;
    int measurements; /* 1: also return how the record was measured, and by which user */
    int timeout_ms;   /* time-out of the call, or of the whole batch; 0: the client's default */
};

struct kiln_tuned;

/* Look up a problem's record.  Both functions return KILN_E_NOT_FOUND if there is no record. */
int kiln_find_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_tuning_options *options, struct kiln_tuned **ret_tuned,
                  struct kiln_error *err);
int kiln_perf_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_tuning_options *options, struct kiln_tuned **ret_tuned,
                  struct kiln_error *err);

struct kiln_tuning_batch {
    size_t size;
    const struct kiln_problem *problems; /* borrowed */
    size_t count;
    const struct kiln_tuning_options *options; /* borrowed; they apply to every problem */
};
/* Look up many problems at once.  |ret_tuned| has |batch->count| elements. ret_tuned[i] becomes
 * NULL if there is no record for problems[i].  On failure, no element is set. */
int kiln_find_get_batch(struct kiln_client *client, const struct kiln_tuning_batch *batch,
                        struct kiln_tuned **ret_tuned, struct kiln_error *err);
int kiln_perf_get_batch(struct kiln_client *client, const struct kiln_tuning_batch *batch,
                        struct kiln_tuned **ret_tuned, struct kiln_error *err);

void kiln_tuned_free(struct kiln_tuned *tuned);      /* accepts NULL */
int kiln_tuned_tier(const struct kiln_tuned *tuned); /* KILN_TUNING_SYSTEM, ... */
/* Return MIOpen's key of the record, and the record's text verbatim. */
const char *kiln_tuned_key(const struct kiln_tuned *tuned);
const char *kiln_tuned_text(const struct kiln_tuned *tuned);
/* Returns 1 if the record was measured with another driver or toolchain. */
int kiln_tuned_is_stale(const struct kiln_tuned *tuned);
/* Returns 1 if the record is that of a similar problem. */
int kiln_tuned_is_near(const struct kiln_tuned *tuned);
/* Compares the problem of the record with the problem that was looked up.  |ret_batch| is the
 * larger batch size divided by the smaller batch size.  |ret_spatial| is the larger input area (or
 * volume) divided by the smaller.  Equal values give 1. */
void kiln_tuned_distance(const struct kiln_tuned *tuned, double *ret_batch, double *ret_spatial);

struct kiln_tuned_entry {
    size_t size;
    const char *solver;
    const char *algorithm; /* only for find */
    const char *params;    /* only for perf; "" for find */
    /* For find, the recorded time; for perf, the measured median, or 0 if not known. */
    double time_ms;
    uint64_t workspace; /* only for find: bytes of workspace */
    /* 0: not known.  This member and the members below are only set if kiln_tuning_options has
     * |measurements|. */
    uint32_t samples;
    double median_ms, spread_ms; /* |spread_ms| is half the interquartile range */
    uint64_t measured_at;        /* seconds since the epoch */
    uint32_t uid;                /* the user who measured it */
    const char *device_uuid, *device, *driver, *toolchain, *library; /* "" if not known */
    uint32_t clock_mhz;
};
unsigned kiln_tuned_count(const struct kiln_tuned *tuned);
/* Returns the entry at |index|, in the order of the record.  Returns KILN_E_INVALID if |index| is
 * too large. */
int kiln_tuned_entry(const struct kiln_tuned *tuned, unsigned index,
                     struct kiln_tuned_entry *ret_entry, struct kiln_error *err);

/* ---- recording ---- */

struct kiln_measurement {
    size_t size;
    const char *solver;
    const char *algorithm; /* for find, such as "miopenConvolutionFwdAlgoWinograd" */
    const char *params;    /* only for perf: the perf config in MIOpen's form, comma-separated */
    uint64_t workspace;    /* only for find: bytes of workspace */
    uint32_t samples;      /* at least 1 */
    double median_ms;      /* an impossibly short time is rejected with KILN_E_INVALID */
    double spread_ms;      /* half the interquartile range; must not be 0 for several samples */
};
struct kiln_recording {
    size_t size;
    const char *database_id;
    const char *backend; /* for find: "HIP", "CUDA", "OpenCL"; NULL: the backend of |database_id| */
    int tier;            /* KILN_TUNING_USER, or KILN_TUNING_HOST for members of kiln-publish */
    const char *device_uuid; /* the device that measured; NULL: not known */
    const char *device;
    const char *driver;
    const char *toolchain;
    const char *library; /* NULL: libkiln and its version */
    uint32_t clock_mhz;  /* 0: not known */
    const struct kiln_measurement *measurements;
    size_t measurement_count; /* number of measurements, at most 256 */
    int timeout_ms;           /* 0: the client's default */
};
/* Record measurements.  When these functions return KILN_E_OK, the measurements are on disk.  In a
 * program with built-in databases, the measurements are only in memory, until the last client is
 * closed.  The functions return KILN_E_DENIED if this user may not write to |tier|, and KILN_E_FULL
 * if the user has too many records.
 *
 * Entries of other solvers in the problem's record are kept.  An earlier measurement of the same
 * solver with the same device, driver and toolchain is merged with the new one statistically.  A
 * call's measurements count once, even if the connection was lost and the request was sent
 * again. */
int kiln_find_put(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_recording *recording, struct kiln_error *err);
int kiln_perf_put(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_recording *recording, struct kiln_error *err);

/* ---- tuning leases ---- */

/*
 * A lease is the right to tune a solver for a problem.  Either one process has this right, or
 * several processes divide the candidates (the points of the tuning space) between them.  Each part
 * is a share.  A process that tunes takes these steps:
 *
 *   1. call kiln_perf_get: if the perf config is known, there is nothing to do
 *   2. call kiln_lease_take: on TAKEN or DONE, go back to step 1.  If the lease is GRANTED after a
 *      TAKEN, call kiln_perf_get again before measuring: the other processes may just have finished
 *      the search, and this lease would repeat it
 *   3. measure the share, then call kiln_lease_report; repeat this while it grants another share
 *
 * A lease belongs to the client's connection and ends with it.  If a process dies, the other
 * processes get its share.  All threads of one client together have one share at a time, unless
 * they request more (KILN_SHARE_MORE).  If the same share is reported again, kilnd ignores the
 * report and answers with the share to measure now.
 */
enum {
    KILN_LEASE_GRANTED, /* measure candidates |first| to |first| + |count| - 1, then report */
    /* another process tunes: use the best config known so far, or ask again later */
    KILN_LEASE_TAKEN,
    KILN_LEASE_DONE, /* tuning is complete, and kiln_perf_get returns the result */
};
enum {
    KILN_SHARE_NONE, /* take no share of a search that another process began */
    KILN_SHARE_ONE,  /* take a share, if the search began on an identical device */
    /* Like KILN_SHARE_ONE, but take another share even if this client already holds one, to prepare
     * the next share while it measures.  A kilnd of an older release grants the held share again.
     */
    KILN_SHARE_MORE,
};
struct kiln_lease_request {
    size_t size;
    const char *database_id;
    const char *solver;
    /* Number of points of the solver's tuning space; 0 if the search must not be shared. */
    uint32_t candidates;
    int share; /* KILN_SHARE_NONE, ... */
    /* How long to wait while another process tunes; at most the time-out. 0: do not wait. */
    int wait_ms;
    int timeout_ms; /* time-out of the call; 0: the client's default */
};
struct kiln_lease {
    size_t size;
    int state; /* KILN_LEASE_*; the members below are set if the state is GRANTED */
    uint64_t id;
    uint64_t connection; /* the connection that the lease belongs to */
    /* The share is |count| candidates from |first| on. |first| and |count| are 0 if the search
     * cannot be shared. */
    uint32_t first, count;
    double best_ms; /* best time of all shares so far; 0: none */
    char best_params[1032];
};
/* Asks for a lease; ret_lease->state says whether it was granted.  Returns KILN_E_BUSY if too many
 * leases are held or too many requests wait. */
int kiln_lease_take(struct kiln_client *client, const struct kiln_problem *problem,
                    const struct kiln_lease_request *request, struct kiln_lease *ret_lease,
                    struct kiln_error *err);
/* Reports the best config of the share, as the only measurement of |recording|.  If no config could
 * be run, |recording| is NULL or has no measurement. ret_next->state is KILN_LEASE_GRANTED if there
 * is another share to measure, KILN_LEASE_TAKEN while other processes still measure their shares,
 * and KILN_LEASE_DONE once all shares are reported and the best config is recorded.  |ret_next| may
 * be |lease|.  Returns KILN_E_NOT_FOUND if the connection was lost, which ended the lease. */
int kiln_lease_report(struct kiln_client *client, const struct kiln_lease *lease,
                      const struct kiln_recording *recording, struct kiln_lease *ret_next,
                      struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
