/* SPDX-License-Identifier: MIT */
#pragma once

/* Checks the filesystems of kilnd's cache and state directories.
 *
 * Role       gathers facts about each directory and turns them into findings.  kilnd reports the
 *            facts as its own process sees them.  If kilnd does not answer, this process gathers
 *            them
 * Ownership  plain values
 * Threading  one thread */
#include "cli/kilnctl/doctor_findings.h"

#include <stdint.h>

struct directory_facts {
    char what[16];
    char path[512];
    char setting[600]; /* the setting and the file in which the directory is set; "" if not known */
    char trouble[128]; /* why the other facts are unknown; "" if they are known */
    char network[32];
    char fuse[32];
    bool read_only;
    /* |inodes| 0 means that the filesystem has no limit of inodes. */
    uint64_t bytes, free_bytes, inodes, free_inodes;
    uint64_t database_bytes; /* size of kernels.db; 0 if it does not exist or is not known */
};

/* Gathers the facts while kilnd does not answer. |config| is kilnd's configuration file. If
 * |config| is NULL, uses the system's default files if |is_system| is set, otherwise the caller's.
 * Returns KILN_E_INVALID if the file is not JSON or has unknown settings. Returns KILN_E_DENIED if
 * some settings cannot be read, and fills |ret_facts| from the others. */
CLI_MUST_CHECK int directory_facts_gather(const char *config, bool is_system,
                                          struct directory_facts ret_facts[2],
                                          struct kiln_error *err);
/* Reads the facts from |directory|, a member of "directories" in kilnd's reply. */
void directory_facts_read(const struct json *directory, struct directory_facts *ret_facts);
void directory_judge(const struct directory_facts *facts, struct findings *findings);
