/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The journal of a search: a file with every timing, so that an interrupted search can be resumed.
 * docs/find-and-tune.md documents its format.
 *
 * Role       There is one file per problem, solver, device, driver, toolchain and version of
 *            libkiln.  Each line is appended with one write, so several processes may share the
 *            file
 * Ownership  a journal owns its descriptor
 * Threading  one thread
 */
#include "libclient/conv/search.h"

struct journal;

/* The file's first line contains all of these texts. */
struct journal_subject {
    const char *version; /* libkiln's version, because kernels differ between versions */
    const char *database_id, *driver, *toolchain, *solver;
    const char *problem;
};

/* Opens the journal in |directory|, which is created if needed.  NULL means the user's default
 * directory.  If the default directory is not writable, there is no journal, and *ret_journal is
 * NULL. */
KILN_MUST_CHECK enum kiln_code journal_open(const char *directory,
                                            const struct journal_subject *subject,
                                            struct journal **ret_journal, struct kiln_err *err);
void journal_close(struct journal *journal);
static inline void journal_auto(struct journal **journal) { journal_close(*journal); }

/* Adds the recorded trials to |search|.  If a config was begun but has no result, its trial has
 * probably crashed the process, so the config gets the result of one that failed to run, unless
 * another process of this host is running it now.  Skips damaged lines. */
KILN_MUST_CHECK enum kiln_code journal_read(struct journal *journal, struct search *search,
                                            struct kiln_err *err);
/* Call journal_begin before the first run of |config|, and journal_end after its trial.  The
 * functions ignore write errors, and do nothing if |journal| is NULL. */
void journal_begin(struct journal *journal, const char *config);
/* Call it after the first run if the trial then takes long, and if there was no memory to run
 * |config|.  If the process ends from now on, |config| is not to blame, and its trial is repeated.
 */
void journal_survive(struct journal *journal, const char *config);
void journal_end(struct journal *journal, const struct search_trial *trial);

/* Notes whether a later tune shall continue the search.  Call it after journal_read().  Does
 * nothing if |journal| is NULL. */
void journal_leave(struct journal *journal, bool is_unfinished);
/* Returns what journal_leave() noted last.  Call it after journal_read().  False if |journal| is
 * NULL. */
bool journal_is_unfinished(const struct journal *journal);
