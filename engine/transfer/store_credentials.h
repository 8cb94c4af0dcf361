/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The credentials of an S3 store, from the environment of kiln-transfer.
 *
 * Role       follows the conventions of AWS's programs: the variables AWS_ACCESS_KEY_ID,
 *            AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; or the profile AWS_PROFILE of the file
 *            AWS_SHARED_CREDENTIALS_FILE. If systemd has loaded the credential "aws"
 *            (LoadCredential=), that is the file
 * Ownership  a plain value; store_credentials_wipe before it goes out of scope
 * Threading  any thread, as long as none changes the environment
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

struct store_credentials {
    char id[128]; /* "": requests are not signed */
    char secret[256];
    char token[4096]; /* "": none */
    char region[64];
};

/* Returns KILN_OK without an id if there are no credentials. A file that is named but cannot be
 * used is an error. */
KILN_MUST_CHECK enum kiln_code store_credentials_read(struct store_credentials *ret_credentials,
                                                      struct kiln_err *err);
/* Reads the profile's section of a file's content. Returns false if the section is missing, or has
 * no key or one that is too long. */
bool store_credentials_parse(struct bytes content, const char *profile,
                             struct store_credentials *credentials);
void store_credentials_wipe(struct store_credentials *credentials);
