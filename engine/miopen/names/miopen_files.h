/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The files of MIOpen, from 2.15 (ROCm 5.0) on: their names, and which versions use them.
 *
 * Role       the only table of these names: overlay, harvest, imports and exports use it, and
 *            docs/formats/miopen-versions.md explains its rows
 * Ownership  words borrow from the name
 * Threading  pure functions
 */
#include "common/base/bytes.h"

#include <stdbool.h>

enum miopen_place {
    MIOPEN_SYSTEM, /* share/miopen/db, or MIOPEN_SYSTEM_DB_PATH */
    MIOPEN_USER,   /* ~/.config/miopen, or MIOPEN_USER_DB_PATH */
    MIOPEN_CACHE   /* ~/.cache/miopen/VERSION; for MIOPEN_CUSTOM_CACHE_DIR see below */
};

enum miopen_content {
    MIOPEN_FIND,        /* FindDb, text */
    MIOPEN_PERF_TEXT,   /* PerfDb */
    MIOPEN_PERF_SQLITE, /* PerfDb */
    MIOPEN_KERNELS,     /* kern_db */
    MIOPEN_MODEL,    /* data of MIOpen's heuristics: kiln does not read it, an overlay links it */
    MIOPEN_TRANSIENT /* locks, times, SQLite's logs: useless without the file that they accompany */
};

/* A release is one number: 2017 is MIOpen 2.17. */
#define MIOPEN_NEVER 1u /* value of |until| for a name that kiln accepts and no MIOpen uses */
/* The first release that throws an exception if its models are missing, and the first that has a
 * version directory below MIOPEN_CUSTOM_CACHE_DIR.  Some builds of 3.5 have no such directory. */
#define MIOPEN_WITH_MODELS 2020u
#define MIOPEN_WITH_VERSIONED_CACHE 3005u

struct miopen_file {
    enum miopen_place place;
    enum miopen_content content;
    const char *part; /* the part of MIOpen: "fusion", "batchnorm"; "": convolutions */
    /* The words ID (database id or arch), BACKEND, VERSION and SCHEMA stand for such texts, * for
     * any text.
     */
    const char *name;
    unsigned since, until; /* releases; 0: no limit */
};
extern const struct miopen_file miopen_files[];
extern const size_t miopen_file_count;

struct miopen_words { /* the texts that match ID, BACKEND and so on; empty: not in the name */
    struct bytes id, backend;
    struct bytes version; /* the text that matches VERSION or SCHEMA */
};
/* Whether |name| has the form of |file|'s name.  Does not check that an id or a backend exists. */
bool miopen_file_matches(const struct miopen_file *file, struct bytes name,
                         struct miopen_words *ret_words);
/* The first row of |place| that |name| matches; NULL: none. */
const struct miopen_file *miopen_file_find(enum miopen_place place, const char *name);
/* Whether |name| ends with the fixed text after the last word of |file|'s name, and has something
 * before it. */
bool miopen_file_has_ending(const struct miopen_file *file, struct bytes name);
bool miopen_file_is_of(const struct miopen_file *file, unsigned release);
/* Puts the words into |file|'s name.  The id also replaces "*". */
void miopen_file_write(const struct miopen_file *file, const struct miopen_words *words,
                       char text[128]);
/* Whether a file that matches no row could contain results of MIOpen, perhaps of a newer MIOpen. */
bool miopen_file_is_likely(const char *name);

/* Returns the release of a version: 2017 for "2.17.0.a82233c22" or "2_17_0_a82233c22". Returns 0 if
 * the text does not begin with two numbers. */
unsigned miopen_release(const char *version);
#define MIOPEN_VERSION_TEXT 48
/* Writes |version| as MIOpen does, with |separator| between its parts.  MIOpen always writes four
 * parts.  The fourth is the commit, and is empty if it is not known: "3.5.2" becomes "3.5.2." or
 * "3_5_2_". */
void miopen_version_write(const char *version, char separator, char text[MIOPEN_VERSION_TEXT]);
