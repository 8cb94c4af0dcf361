/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/http_script.h"
#include "tests/unit/engine/transfer/package_fixture.h"

#define ROWS 20
#define OBJECT_SIZE 5000

struct fixture {
    struct package_fixture p;
    struct http_script server;
    struct transfer_job job;
    struct fetch_policy policy;
    struct transfer_result result;
    char stages[256]; /* in the order of the reports */
    uint64_t done, total;
    int manifest_status; /* HTTP status to send instead of the manifest; 0: send the manifest */
    char url[FIXTURE_PATH_MAX + 64];
    char hex[DIGEST_HEX_SIZE];
    int fd;
};

void open_transfer(struct fixture *f);
SET_UP(set_up_transfer) { open_transfer(f); }
FIXTURE(transfer, set_up_transfer, NULL);

void from_descriptor(struct fixture *f, const char *name);
void from_file_url(struct fixture *f, const char *name);
void from_server(struct fixture *f, const char *name);
/* Runs the transfer, then stops the server, so that the test can examine the requests. */
enum kiln_code run(struct fixture *f);
/* PACKAGE must be complete. Staging must contain nothing else, except the manifest of PACKAGE.
 * Removes both files. */
void expect_installed(struct fixture *f);
/* Runs the transfer, which must fail with |code| and leave nothing in staging. */
void expect_refused(struct fixture *f, enum kiln_code code, const char *says);
