/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The credentials of an S3 store, from the environment of kiln-transfer.
 *
 * Role       follows the conventions of AWS's programs: the variables AWS_ACCESS_KEY_ID,
 *            AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; or the profile AWS_PROFILE of the file
 *            AWS_SHARED_CREDENTIALS_FILE. If that variable is not set, the file is the credential
 *            "aws" that systemd has loaded (LoadCredential=)
 * Ownership  a plain value; call store_credentials_wipe before it goes out of scope
 * Threading  any thread, as long as none changes the environment
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

struct store_credentials {
    char id[128]; /* "": there are no credentials, so requests are not signed */
    char secret[256];
    char token[4096]; /* "": none */
    char region[64];
    uint64_t expires_s; /* in seconds since 1970; 0: never */
};

/* Returns KILN_OK without an id if there are no credentials. Returns an error if a file is named
 * but cannot be used. */
KILN_MUST_CHECK enum kiln_code store_credentials_read(struct store_credentials *ret_credentials,
                                                      struct kiln_err *err);
/* Reads the section |profile| from the content of a credentials file. Returns false if the section
 * is missing, or if its key is missing or too long. */
bool store_credentials_parse(struct bytes content, const char *profile,
                             struct store_credentials *credentials);
/* Overwrites the variables in the environment, for a process that needs no credentials. */
void store_credentials_forget(void);
void store_credentials_wipe(struct store_credentials *credentials);
