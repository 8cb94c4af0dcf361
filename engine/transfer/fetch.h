/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Gets what is behind an http or https URL into a file, through lost connections.
 *
 * Role       tries again, with growing pauses, after what another try may mend; goes on where the
 *            last one stopped, but only when the server says that it is still the same file
 * Ownership  borrows everything
 * Threading  one fetch, one thread; blocks
 *
 * libcurl reads the proxy variables and has the system's certificate authorities; SSL_CERT_FILE and
 * SSL_CERT_DIR take their place.
 */
#include "engine/transfer/transfer_job.h"
#include "engine/transfer/url.h"

struct fetch_policy {
    unsigned barren_max;   /* attempts in a row that brought nothing new */
    unsigned attempts_max; /* in all */
    uint64_t pause_ms;     /* before the second attempt; doubled each time, less up to a half */
    uint64_t pause_max_ms;
    unsigned connect_s, stall_s; /* slower than |stall_rate| for so long: cut */
    unsigned stall_rate;         /* bytes a second */
    void (*pause)(uint64_t ms);  /* waits; tests only count */
};
extern const struct fetch_policy fetch_policy_standard;

struct fetch_request {
    const struct url *url;
    uint64_t size_limit;
    const struct fetch_policy *policy;
    void (*progress)(void *context, const struct transfer_progress *progress); /* may be NULL */
    void *context;
};

/* |to_fd| is empty, and may hold anything after a failure.  KILN_NOT_FOUND: the server has no such
 * file; KILN_FULL: beyond the limit, or the disk is.  |ret_status| (may be NULL) is written in any
 * case: the last answer's, 0 when there was none. */
KILN_MUST_CHECK enum kiln_code fetch(const struct fetch_request *request, int to_fd,
                                     long *ret_status, struct kiln_err *err);
