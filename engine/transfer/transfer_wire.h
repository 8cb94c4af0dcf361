/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What kilnd and a kiln-transfer process say to each other: JSON, one object a packet
 * (SOCK_SEQPACKET).
 *
 *   job       {"url", "name", "sha256", "staging", "trusted_keys", "size_limit",
 *              "require_signature", "salvage", "content", "manifest"}; the last two say which
 *              descriptors come along, in that order
 *   progress  {"stage", "done", "total", "attempt", "note"}
 *   outcome   {"code", "text", "name", "sha256", "signer", "source", "fetched", "size", "rows",
 *              "damaged", "notice"}
 *   snapshot  {"code", "text", "name", "merged", "note"}, with the file's descriptor where "code"
 *              is 0
 *
 * Ownership  a job that was received is the receiver's to finish; a report is a plain value that
 *            may not be copied
 * Threading  plain values
 *
 * A process that parsed what a stranger sent is hostile itself: its answers are checked.  It does
 * not say where the file is: kilnd knows.
 */
#include "common/json.h"
#include "engine/transfer/snapshot.h"

KILN_MUST_CHECK enum kiln_code transfer_send_job(int socket, const struct transfer_job *job,
                                                 struct kiln_err *err);

struct received_job {
    struct transfer_job job; /* borrows from the rest */
    struct json *text;       /* owned */
    int fds[2];              /* owned; -1 */
};
/* Blocks. KILN_INVALID: not a valid job. */
KILN_MUST_CHECK enum kiln_code transfer_receive_job(int socket, struct received_job *ret_job,
                                                    struct kiln_err *err);
void received_job_done(struct received_job *job);

/* Dropped while the socket is full; a later report supersedes it. */
void transfer_send_progress(int socket, const struct transfer_progress *progress);
/* |notice|: information about the process for the operator; usually "". */
void transfer_send_result(int socket, const struct transfer_result *result, const char *notice);

struct transfer_report {
    bool ended;                        /* else it is progress */
    struct transfer_progress progress; /* borrows from the rest */
    struct transfer_result result;     /* without a path */
    char notice[512], stage[16], note[512];
};
/* Does not block. KILN_BUSY without a message: there is no report now; KILN_UNAVAILABLE without
 * a message: there will be none; KILN_INVALID: not a valid report. */
KILN_MUST_CHECK enum kiln_code transfer_receive_report(int socket,
                                                       struct transfer_report *ret_report,
                                                       struct kiln_err *err);

/* |snapshot| NULL: |why| says why there is none. */
void transfer_send_snapshot(int socket, const struct snapshot *snapshot,
                            const struct kiln_err *why);

/* A plain file name that is not hidden and holds no control characters. */
bool transfer_is_file_name(const char *name);
