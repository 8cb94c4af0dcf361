/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Judges the filesystems that hold kilnd's directories.
 *
 * Role       the facts come from kilnd, as its own process sees them, or else from this process
 * Ownership  plain values
 * Threading  one thread
 */
#include "cli/kilnctl/doctor_findings.h"

#include <stdint.h>

struct directory_facts {
    char what[16]; /* "cache" or "state" */
    char path[512];
    char setting[600]; /* the file that sets the directory; "": not known */
    char trouble[128]; /* why nothing else is known */
    char network[32];  /* the type of a network filesystem; "": not one */
    char fuse[32];     /* the type of an unknown FUSE filesystem; "": not one */
    bool read_only;
    uint64_t bytes, free_bytes, inodes, free_inodes; /* inodes 0: no limit */
    uint64_t database_bytes;                         /* size of kernels.db; 0: none, or not known */
};

/* Gathers the facts for a kilnd that does not answer.  |config| is its settings; NULL means the
 * caller's default settings, or the system's if |is_system|.  KILN_E_INVALID if the settings are
 * not JSON or are unknown.  KILN_E_DENIED if some settings cannot be read: |ret_facts| is filled
 * nevertheless, without those. */
CLI_MUST_CHECK int directory_facts_gather(const char *config, bool is_system,
                                          struct directory_facts ret_facts[2],
                                          struct kiln_error *err);
/* Reads the facts from one member of "directories" in kilnd's reply. */
void directory_facts_read(const struct json *directory, struct directory_facts *ret_facts);
void directory_judge(const struct directory_facts *facts, struct findings *findings);
