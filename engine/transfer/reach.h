/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Opens what a job names with kilnd's rights, before they are given up: a process that runs as
 * another user needs to enter no directory of kilnd's.
 *
 * Threading  before any thread is started; for the whole process
 */
#include "engine/transfer/transfer_wire.h"

/* Copies of the trusted keys, in the staging directory; kilnd removes them with it. */
#define REACH_KEYS ".keys"

/* Enters job.staging, which becomes "."; opens a file: URL and its manifest as the job's
 * descriptors; SSL_CERT_FILE and SSL_CERT_DIR are held and named by descriptors, which lead past
 * the directories above them.  With |leaves| the process is going to be another user, who may not
 * be allowed to read the trusted keys: they are copied. */
KILN_MUST_CHECK enum kiln_code transfer_reach(struct received_job *received, bool leaves,
                                              struct kiln_err *err);
