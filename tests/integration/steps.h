/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What several of these tests do: kilnctl asked for something, plain tools as the oracle,
 * directories compared before and after.
 */
#include "tests/support/daemon_process.h"

#include "common/cleanup.h"
#include "common/err.h"

/* |f| is a fixture with the members daemon and result.  Of those that must succeed, and those that
 * must fail with |exit_status| and a sentence that has |words| in it. */
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
/* The JSON object among what was printed, the last one; owned by the caller. */
struct json *printed_json(const struct program_result *result);

/* A command of the shell in |directory| must succeed. */
void shell(const char *directory, const char *format, ...) KILN_PRINTF(2, 3);
/* All that it prints; owned by the caller. */
char *shell_text(const char *directory, const char *format, ...) KILN_PRINTF(2, 3);
/* Its output must be |expected|, but for line ends behind it. */
void shell_says(const char *expected, const char *directory, const char *format, ...)
    KILN_PRINTF(3, 4);

/* Names, sizes, modes and SHA-256 of all files below |directory|; owned by the caller. */
char *describe_files(const char *directory);
/* They must still be as |before|, which is freed. */
void expect_files(const char *directory, char *before);

/* 100 MiB in a file are 100 MiB here: what du counts of |directory|, in bytes. */
unsigned long long disk_used(const char *directory);

/* One member of `kilnctl status --json`: "store.health"; the text or number as text. */
void daemon_status(struct daemon_process *d, const char *part, const char *member, char text[512]);
