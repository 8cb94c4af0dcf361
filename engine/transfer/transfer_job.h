/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The job of getting one file for the package directory, and its result.
 *
 * Role       A separate process (kiln-transfer), which has no access to the stores, does the job
 * Ownership  a job borrows everything; a result's file belongs to the receiver of the result
 * Threading  plain values
 */
#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct transfer_job {
    const char *url; /* https, http or file; NULL: use |content_fd| */
    /* Borrowed; the file that the client opened, or the file that a file: URL names; -1: none. */
    int content_fd;
    int manifest_fd;  /* borrowed; -1: none */
    const char *name; /* the package's file name; NULL: the URL's last part */
    /* The expected SHA-256 as 64 hexadecimal digits; NULL: it is not checked. */
    const char *sha256;
    const char *staging;
    const char *trusted_keys;
    /* The name of the keys' directory in messages, if |trusted_keys| is a copy; otherwise NULL. */
    const char *keys_shown;
    uint64_t size_limit;
    unsigned disk_part; /* a user's file may have at most 1/disk_part of the disk's free space; 0:
                         * half of it */
    bool require_signature;
    bool of_user; /* a cache or tuning file that a user imports, not a package */
    /* Only with |of_user|: the file is not a kernel database. The transfer does not check its rows;
     * the code that reads the file must do that. */
    bool unchecked;
};

struct transfer_progress {
    const char *stage;    /* "fetching", "unpacking" or "checking" */
    uint64_t done, total; /* bytes or rows; |total| is 0 if not known */
    unsigned attempt;
    const char *note; /* why the previous attempt failed */
};

/* Name of the manifest in the staging directory. kilnd checks the manifest's signature again,
 * because it does not trust a process that is exposed to the network. */
#define TRANSFER_MANIFEST ".manifest"
#define TRANSFER_MANIFEST_MAX (256u << 10)

struct transfer_result {
    /* If |err| is not KILN_OK, the staging directory is empty, and the members below are not
     * set. */
    struct kiln_err err;
    /* A file in the staging directory; the receiver renames or removes it. */
    char path[512];
    char name[256]; /* without .bz2, such as "gfx90a68.kdb" */
    char sha256[65];
    char signer[64];  /* "" if unsigned */
    char source[256]; /* the URL without credentials and query; "" for a descriptor */
    uint64_t size;
    uint64_t rows;
    char fetched[256]; /* the name of the fetched file as in the manifest, such as
                        * "gfx90a68.kdb.bz2" */
    uint8_t *manifest; /* owned by the receiver; NULL: none */
    size_t manifest_size;
};
