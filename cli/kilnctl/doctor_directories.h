/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Judges the filesystems of kilnd's directories.
 *
 * Role       gathers facts and judges them.  The facts come from kilnd, as its own process sees
 *            them, or from this process if kilnd does not answer
 * Ownership  plain values
 * Threading  one thread
 */
#include "cli/kilnctl/doctor_findings.h"

#include <stdint.h>

struct directory_facts {
    char what[16];
    char path[512];
    char setting[600]; /* the file that sets the directory; "" if not known */
    char trouble[128]; /* why nothing else is known about the directory */
    char network[32];
    char fuse[32];
    bool read_only;
    /* If |inodes| is 0, the number of inodes is not limited. */
    uint64_t bytes, free_bytes, inodes, free_inodes;
    uint64_t database_bytes; /* size of kernels.db; 0 if absent or not known */
};

/* Gathers the facts for a kilnd that does not answer.  |config| is the file of its settings; NULL
 * means the caller's default settings, or the system's if |is_system|.  Returns KILN_E_INVALID if
 * the settings are not JSON or are unknown.  Returns KILN_E_DENIED if some settings cannot be read;
 * |ret_facts| is then filled without those. */
CLI_MUST_CHECK int directory_facts_gather(const char *config, bool is_system,
                                          struct directory_facts ret_facts[2],
                                          struct kiln_error *err);
/* |directory| is a member of "directories" in kilnd's reply. */
void directory_facts_read(const struct json *directory, struct directory_facts *ret_facts);
void directory_judge(const struct directory_facts *facts, struct findings *findings);
