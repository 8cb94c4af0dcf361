/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One transfer, run in this process, from a descriptor, a file or a server of the test's own.
 */
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
    char stages[256]; /* as they came */
    uint64_t done, total;
    int manifest_status; /* instead of the manifest; 0: what there is */
    char url[FIXTURE_PATH_MAX + 64];
    char hex[DIGEST_HEX_SIZE];
    int fd;
};

int transfer_set_up(void **state);
int transfer_tear_down(void **state);
FIXTURE(transfer, transfer_set_up, transfer_tear_down);

void from_descriptor(struct fixture *f, const char *name);
void from_file_url(struct fixture *f, const char *name);
void from_server(struct fixture *f, const char *name);
/* The server has stopped afterwards: what it saw can be looked at. */
enum kiln_code run(struct fixture *f);
/* The outcome is PACKAGE, whole, and the one file in staging; removes it. */
void expect_installed(struct fixture *f);
/* Runs it: it must fail so and leave nothing. */
void expect_refused(struct fixture *f, enum kiln_code code, const char *says);
