/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Opens the files of a job while the process still has kilnd's rights.  After the process has
 * switched to another user, it need not enter any directory of kilnd.
 *
 * Threading  before any thread is started; affects the whole process
 */
#include "engine/transfer/transfer_wire.h"

/* Directory of copied trusted keys, inside the staging directory; kilnd removes both. */
#define REACH_KEYS ".keys"

/* Enters job.staging, which becomes ".". Opens a file: URL and its manifest as the job's
 * descriptors. Replaces SSL_CERT_FILE and SSL_CERT_DIR by paths of open descriptors, so that the
 * process need not be allowed to search the directories above them.  Set |leaves| if the process
 * will switch to another user. It then also copies the trusted keys, because this user may not be
 * allowed to read them. */
KILN_MUST_CHECK enum kiln_code transfer_reach(struct received_job *received, bool leaves,
                                              struct kiln_err *err);
