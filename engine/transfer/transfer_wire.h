/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The messages between kilnd and a kiln-transfer process: one JSON object in each packet
 * (SOCK_SEQPACKET).
 *
 *   job       {"url", "name", "sha256", "staging", "trusted_keys", "size_limit",
 *              "require_signature", "of_user", "content", "manifest"}; the last two state which
 *              descriptors are attached, in that order
 *   progress  {"stage", "done", "total", "attempt", "note"}
 *   result    {"code", "text", "name", "sha256", "signer", "source", "fetched", "size", "rows",
 *              "damaged", "notice"}
 *   snapshot  {"code", "text", "name", "merged", "note"}; with the file's descriptor if "code" is 0
 *
 * Ownership  the receiver of a job calls received_job_done; a report is a plain value that must not
 *            be copied, because parts of it borrow from other parts
 * Threading  plain values
 *
 * A process that parsed hostile input may be hostile itself, so kilnd checks its reports. They do
 * not state where the file is, because kilnd has chosen the place.
 */
#include "common/base/json.h"
#include "engine/transfer/snapshot.h"

KILN_MUST_CHECK enum kiln_code transfer_send_job(int socket, const struct transfer_job *job,
                                                 struct kiln_err *err);

struct received_job {
    struct transfer_job job; /* borrows from the rest */
    struct json *text;       /* owned */
    int fds[2];              /* owned; -1: none */
};
/* Blocks. KILN_INVALID: not a valid job. */
KILN_MUST_CHECK enum kiln_code transfer_receive_job(int socket, struct received_job *ret_job,
                                                    struct kiln_err *err);
void received_job_done(struct received_job *job);

/* Drops the report while the socket is full; a later report replaces it. */
void transfer_send_progress(int socket, const struct transfer_progress *progress);
/* |notice|: information about the process for the operator; usually "". */
void transfer_send_result(int socket, const struct transfer_result *result, const char *notice);

struct transfer_report {
    bool ended;                        /* |result| is valid; otherwise |progress| is */
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

/* Whether |name| is a plain file name that is not hidden and has no control characters. */
bool transfer_is_file_name(const char *name);
