/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The messages between kilnd and a kiln-transfer process: one JSON object in each packet
 * (SOCK_SEQPACKET).
 *
 *   job       {"url", "name", "sha256", "staging", "trusted_keys", "size_limit",
 *              "require_signature", "of_user", "content", "manifest"}; "content" and "manifest"
 *              state whether the packet has these descriptors, in this order
 *   progress  {"stage", "done", "total", "attempt", "note"}
 *   result    {"code", "text", "name", "sha256", "signer", "source", "fetched", "size", "rows",
 *              "damaged", "notice"}
 *   snapshot  {"code", "text", "name", "merged", "note"}; with the file's descriptor if "code" is 0
 *
 * Ownership  the receiver of a job calls received_job_done; a report must not be copied, because
 *            parts of it borrow from other parts
 * Threading  plain values
 *
 * Hostile input may have taken control of the kiln-transfer process, so kilnd checks its reports.
 */
#include "common/base/json.h"
#include "engine/transfer/snapshot.h"

KILN_MUST_CHECK enum kiln_code transfer_send_job(int socket, const struct transfer_job *job,
                                                 struct kiln_err *err);

struct received_job {
    struct transfer_job job; /* borrows from the members below */
    struct json *text;
    int fds[2]; /* owned; -1: none */
};
KILN_MUST_CHECK enum kiln_code transfer_receive_job(int socket, struct received_job *ret_job,
                                                    struct kiln_err *err);
void received_job_done(struct received_job *job);

/* Drops the report if the socket is full; a later report will replace it. */
void transfer_send_progress(int socket, const struct transfer_progress *progress);
/* |notice| is a message for the operator; usually "". */
void transfer_send_result(int socket, const struct transfer_result *result, const char *notice);

struct transfer_report {
    bool ended;                        /* |result| is valid, otherwise |progress| */
    struct transfer_progress progress; /* borrows from the members below */
    struct transfer_result result;     /* has no path */
    char notice[512], stage[16], note[512];
};
/* Receives a report without blocking. Returns KILN_BUSY if no report has arrived, and
 * KILN_UNAVAILABLE if no further report will arrive, both without a message. Returns KILN_INVALID
 * if the report is not valid. */
KILN_MUST_CHECK enum kiln_code transfer_receive_report(int socket,
                                                       struct transfer_report *ret_report,
                                                       struct kiln_err *err);

void transfer_send_snapshot(int socket, const struct snapshot *snapshot,
                            const struct kiln_err *why);

/* Rejects paths, hidden files and control characters. */
bool transfer_is_file_name(const char *name);
