/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/daemon_process.h"
#include "tests/support/shell.h"

#include "common/base/cleanup.h"
#include "common/base/err.h"

/* Run kilnctl for the fixture |f|, which has the members |daemon| and |result|. kilnctl_fails
 * expects |exit_status| and output that contains |words|. */
#define kilnctl(f, ...) run_program(&(f)->daemon, &(f)->result, "kilnctl", __VA_ARGS__, NULL)
#define kilnctl_ok(f, ...)                  \
    do {                                    \
        kilnctl(f, __VA_ARGS__);            \
        expect_status(&(f)->result, 0, ""); \
    } while (0)
#define kilnctl_fails(f, exit_status, words, ...)            \
    do {                                                     \
        kilnctl(f, __VA_ARGS__);                             \
        expect_status(&(f)->result, (exit_status), (words)); \
    } while (0)

void expect_status(const struct program_result *result, int status, const char *words);
/* Returns the last JSON object in a program's output. The caller owns it. */
struct json *printed_json(const struct program_result *result);

/* Returns the names, sizes, modes and SHA-256 of the files below |directory|, except the tuning
 * database. The caller owns the text. */
char *describe_files(const char *directory);
/* Fails the test if describe_files(|directory|) differs from |before|. Frees |before|. */
void expect_files(const char *directory, char *before);

/* Until the end of the test, statfs(2) reports |type| for paths below |directory|, to the test
 * and to programs that it starts. */
void fake_filesystem_type(const char *type, const char *directory);

/* Returns the disk space of |directory| in bytes, as du counts it. */
unsigned long long disk_used(const char *directory);

/* Stores one member of `kilnctl status --json` as text: |member| of the object |part|. */
void daemon_status(struct daemon_process *d, const char *part, const char *member, char text[512]);
