/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The journal of a search: a file with every timing, so that a search that was cut off is taken up
 * again.  docs/find-and-tune.md has its format.
 *
 * Role       one file for a problem, solver, device, driver, toolchain and version of libkiln; its
 *            lines are appended, each by one write: several processes may keep one together
 * Ownership  a journal owns its descriptor
 * Threading  one thread
 */
#include "libclient/conv/search.h"

struct journal;

/* What a file is for; all of it is its first line. */
struct journal_subject {
    const char *version; /* libkiln's: kernels change with it */
    const char *database_id, *driver, *toolchain, *solver;
    const char *problem; /* as a driver's command line */
};

/* In |directory|, which is made; NULL: the user's own, and no journal (*ret_journal NULL) where
 * there is none that can be written to. */
KILN_MUST_CHECK enum kiln_code journal_open(const char *directory,
                                            const struct journal_subject *subject,
                                            struct journal **ret_journal, struct kiln_err *err);
void journal_close(struct journal *journal); /* accepts NULL */
static inline void journal_auto(struct journal **journal) { journal_close(*journal); }

/* Adds what is in it to |search|, as tried.  A config that was begun and has no result ended its
 * process: it counts as not run.  Damaged lines are passed over. */
KILN_MUST_CHECK enum kiln_code journal_read(struct journal *journal, struct search *search,
                                            struct kiln_err *err);
/* Before |config| runs for the first time, and after: best effort, and nothing where |journal| is
 * NULL. */
void journal_begin(struct journal *journal, const char *config);
void journal_end(struct journal *journal, const struct search_trial *trial);
