/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The files of MIOpen, from 2.15 (ROCm 5.0) on: their names, and which versions use them.
 *
 * Role       the only table of these names; docs/formats/miopen-versions.md explains its rows
 * Ownership  words borrow from the name
 * Threading  pure functions
 */
#include "common/base/bytes.h"

#include <stdbool.h>

enum miopen_place {
    MIOPEN_SYSTEM, /* share/miopen/db, or MIOPEN_SYSTEM_DB_PATH */
    MIOPEN_USER,   /* ~/.config/miopen, or MIOPEN_USER_DB_PATH */
    /* ~/.cache/miopen/VERSION; see MIOPEN_WITH_VERSIONED_CACHE for MIOPEN_CUSTOM_CACHE_DIR */
    MIOPEN_CACHE
};

enum miopen_content {
    MIOPEN_FIND,
    MIOPEN_PERF_TEXT,
    MIOPEN_PERF_SQLITE,
    MIOPEN_KERNELS,
    /* Data of MIOpen's heuristics. kiln does not read it; `kilnctl miopen overlay` links it. */
    MIOPEN_MODEL,
    /* Locks, *.time files and SQLite's logs, which are useless without the file they belong to. */
    MIOPEN_TRANSIENT
};

/* Releases are written as one number: 2017 is MIOpen 2.17. */
/* The value of |until| for a name that kiln accepts, but that no release of MIOpen uses. */
#define MIOPEN_NEVER 1u
/* MIOPEN_WITH_MODELS: the first release that fails without its heuristic models.
 * MIOPEN_WITH_VERSIONED_CACHE: the first release that has a version directory below
 * MIOPEN_CUSTOM_CACHE_DIR. Some builds of 3.5 have no such directory. */
#define MIOPEN_WITH_MODELS 2020u
#define MIOPEN_WITH_VERSIONED_CACHE 3005u

struct miopen_file {
    enum miopen_place place;
    enum miopen_content content;
    const char *part; /* "fusion", "batchnorm"; "" for convolutions */
    /* In this pattern, ID (a database id or arch), BACKEND, VERSION and SCHEMA stand for texts of
     * that kind, and * for any text. */
    const char *name;
    unsigned since, until; /* releases; 0: no limit */
};
extern const struct miopen_file miopen_files[];
extern const size_t miopen_file_count;

struct miopen_words {
    struct bytes id, backend;
    struct bytes version;
};
/* Does not check that an id or a backend exists. */
bool miopen_file_matches(const struct miopen_file *file, struct bytes name,
                         struct miopen_words *ret_words);
const struct miopen_file *miopen_file_find(enum miopen_place place, const char *name);
/* Returns whether |name| ends with the fixed text that ends the row's pattern, such as ".fdb.txt",
 * and has other characters before it. */
bool miopen_file_has_ending(const struct miopen_file *file, struct bytes name);
bool miopen_file_is_of(const struct miopen_file *file, unsigned release);
/* Writes the pattern with |words| in place of ID, BACKEND and so on.  The id also replaces "*". */
void miopen_file_write(const struct miopen_file *file, const struct miopen_words *words,
                       char text[128]);
/* Returns whether a file that matches no row could contain results of a newer MIOpen. */
bool miopen_file_is_likely(const char *name);

/* Returns 2017 for "2.17.0.a82233c22" or "2_17_0_a82233c22"; 0 if there are no two numbers. */
unsigned miopen_release(const char *version);
#define MIOPEN_VERSION_TEXT 48
/* Writes a version as in MIOpen's names, which have four parts. The fourth is the commit, which may
 * be empty: "3.5.2" becomes "3.5.2." or "3_5_2_". */
void miopen_version_write(const char *version, char separator, char text[MIOPEN_VERSION_TEXT]);
