/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Opens the files of a job while the process still has kilnd's rights.  After the process has
 * switched to another user, it need not enter any directory of kilnd.
 *
 * Threading  before any thread is started; affects the whole process
 */
#include "engine/transfer/transfer_wire.h"

/* Directory for copies of the trusted keys, in the staging directory. kilnd removes both. */
#define REACH_KEYS ".keys"

/* Enters job.staging, which becomes ".". Opens a file: URL and its manifest. Opens what
 * SSL_CERT_FILE and SSL_CERT_DIR name, and sets these variables to paths of the descriptors. If
 * |leaves| is true, the process will switch to another user, so it also copies the trusted keys,
 * which this user may not be allowed to read. */
KILN_MUST_CHECK enum kiln_code transfer_reach(struct received_job *received, bool leaves,
                                              struct kiln_err *err);
