/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Fetches an http or https URL into a file, and survives lost connections.
 *
 * Role       repeats attempts whose failure may be temporary, with growing pauses. Continues where
 *            the previous attempt stopped, if the server confirms that the file is the same
 * Ownership  borrows everything
 * Threading  one thread for each fetch; blocks
 *
 * libcurl uses the proxy variables (such as https_proxy) and the system's certificate authorities,
 * unless SSL_CERT_FILE or SSL_CERT_DIR names others.
 */
#include "engine/transfer/transfer_job.h"
#include "engine/transfer/url.h"

struct fetch_policy {
    unsigned barren_max; /* maximum number of successive attempts that fetch no new bytes */
    unsigned attempts_max;
    /* Pause after an attempt that fetched new bytes. It doubles with each successive attempt that
     * fetches none, up to |pause_max_ms|. It is then shortened by a random amount, at most by
     * half. */
    uint64_t pause_ms;
    uint64_t pause_max_ms;
    unsigned connect_s;
    /* A transfer is ended if it is slower than |stall_rate| bytes/s for this time. */
    unsigned stall_s;
    unsigned stall_rate;
    void (*pause)(uint64_t ms); /* waits for |ms|; tests replace it */
};
extern const struct fetch_policy fetch_policy_standard;

struct fetch_request {
    const struct url *url;
    uint64_t size_limit;
    const struct fetch_policy *policy;
    void (*progress)(void *context, const struct transfer_progress *progress);
    void *context;
};

/* Fetches the file into |to_fd|, which must be empty. After a failure, the content of |to_fd| is
 * undefined. Returns KILN_NOT_FOUND if the server has no such file, and KILN_FULL if the file
 * exceeds the limit or the disk is full. |ret_status| (may be NULL) always receives the HTTP status
 * of the latest response; 0: there was none. */
KILN_MUST_CHECK enum kiln_code fetch(const struct fetch_request *request, int to_fd,
                                     long *ret_status, struct kiln_err *err);
