/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One file for the package directory, and how getting it ended.
 *
 * Role       what the engine asks for and what it gets back: fetched, unpacked and checked in a
 *            process of its own (kiln-transfer), which may not see the stores
 * Ownership  a job borrows everything; an outcome's file belongs to whoever gets the outcome
 * Threading  plain values
 */
#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

struct transfer_job {
    const char *url;          /* https, http or file; NULL: |content_fd| */
    int content_fd;           /* borrowed: a file that the client opened, or a file: URL's; -1 */
    int manifest_fd;          /* borrowed likewise: its signed manifest; -1: none was given */
    const char *name;         /* the package's file name; NULL: the URL's last part */
    const char *sha256;       /* 64 hexadecimal digits that the file as fetched must have; NULL */
    const char *staging;      /* directory to put the result into */
    const char *trusted_keys; /* directory of *.pub */
    const char *keys_shown; /* what sentences call it, where it is a copy; NULL: as it is called */
    uint64_t size_limit;    /* bytes, as fetched and as unpacked */
    unsigned disk_part;     /* of what is free on its disk a user's file gets one in so many */
    bool require_signature;
    bool salvage;   /* damaged rows are counted, not refused: a user's cache that is imported */
    bool unchecked; /* with salvage: no database of kernels, so its rows are whoever reads it's to
                       check */
};

struct transfer_progress {
    const char *stage;    /* "fetching", "unpacking", "checking" */
    uint64_t done, total; /* bytes or rows; total 0: not known */
    unsigned attempt;     /* from 1 */
    const char *note;     /* what went wrong before this attempt; "" */
};

/* The manifest that was checked, in staging: whoever trusts no process that met strangers checks it
 * once more. */
#define TRANSFER_MANIFEST ".manifest"
#define TRANSFER_MANIFEST_MAX (256u << 10)

struct transfer_result {
    struct kiln_err err; /* KILN_OK and the rest filled, or why not: nothing is left behind then */
    char path[512];   /* of the checked file, in staging; whoever gets it renames or removes it */
    char name[256];   /* "gfx90a68.kdb": unpacked, so without .bz2 */
    char sha256[65];  /* of that file */
    char signer[64];  /* "" when unsigned */
    char source[256]; /* the URL without credentials and query; "" for a descriptor */
    uint64_t size;    /* bytes */
    uint64_t rows, damaged;
    char fetched[256]; /* what the manifest calls it: "gfx90a68.kdb.bz2" */
    uint8_t *manifest; /* owned by whoever gets the outcome; NULL when there is none */
    size_t manifest_size;
};
