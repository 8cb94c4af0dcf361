/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The filesystems that kilnd's directories are on.
 *
 * Role       facts come from kilnd, which sees them as they are for it, or from outside
 * Ownership  plain values
 * Threading  one thread
 */
#include "cli/kilnctl/doctor_findings.h"

#include <stdint.h>

struct directory_facts {
    char what[16]; /* "cache" or "state" */
    char path[512];
    char setting[600]; /* where the directory is set: a file; "": not known */
    char trouble[128]; /* why nothing else is known */
    char network[32];  /* the type of a network filesystem; "": it is none */
    char fuse[32];     /* of one by FUSE that is not known; "": it is none */
    bool read_only;
    uint64_t bytes, free_bytes, inodes, free_inodes; /* inodes 0: no limit of them */
    uint64_t database_bytes; /* of kernels.db in it; 0: none, or not known */
};

/* Where a kilnd that does not answer would have them.  |config|: its settings; NULL: the usual ones
 * of who asks, or the system's where |is_system|.  KILN_E_INVALID for settings that are no JSON, or
 * not known. KILN_E_DENIED where some may not be read: |ret_facts| are there all the same, without
 * those. */
CLI_MUST_CHECK int directory_facts_gather(const char *config, bool is_system,
                                          struct directory_facts ret_facts[2],
                                          struct kiln_error *err);
/* Of one member of "directories" in kilnd's answer. */
void directory_facts_read(const struct json *directory, struct directory_facts *ret_facts);
void directory_judge(const struct directory_facts *facts, struct findings *findings);
