/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One file for the package folder, and how getting it ended.
 *
 * Role       what the engine asks for and what it gets back: fetched, unpacked and checked in a
 *            process of its own (kiln-transfer), which may not see the stores
 * Ownership  a job borrows everything; an outcome's file belongs to whoever gets the outcome
 * Threading  plain values
 */
#include "common/err.h"

#include <stdint.h>

struct transfer_job {
    const char *url;          /* https, http or file; NULL: |content_fd| */
    int content_fd;           /* borrowed: a file that the client opened; -1 */
    int manifest_fd;          /* borrowed likewise: its signed manifest; -1: none was given */
    const char *name;         /* the package's file name; NULL: the URL's last part */
    const char *sha256;       /* 64 hexadecimal digits that the file as fetched must have; NULL */
    const char *staging;      /* folder to put the result into */
    const char *trusted_keys; /* folder of *.pub */
    uint64_t size_limit;      /* bytes, as fetched and as unpacked */
    bool require_signature;
    bool salvage; /* damaged rows are counted, not refused: a user's cache that is imported */
};

struct transfer_progress {
    const char *stage;    /* "fetching", "unpacking", "checking" */
    uint64_t done, total; /* bytes or rows; total 0: not known */
    unsigned attempt;     /* from 1 */
    const char *note;     /* what went wrong before this attempt; "" */
};

struct transfer_outcome {
    struct kiln_err err; /* KILN_OK and the rest filled, or why not: nothing is left behind then */
    char path[512];   /* of the checked file, in staging; whoever gets it renames or removes it */
    char name[256];   /* "gfx90a68.kdb": unpacked, so without .bz2 */
    char sha256[65];  /* of that file */
    char signer[64];  /* "" when unsigned */
    char source[256]; /* the URL without credentials and query; "" for a descriptor */
    uint64_t size;    /* bytes */
    uint64_t rows, damaged;
};
