/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The job of getting one file for the package directory, and its result.
 *
 * Role       describes the engine's request and its result.  A separate process (kiln-transfer),
 *            which has no access to the stores, fetches, unpacks and checks the file
 * Ownership  a job borrows everything; a result's file belongs to the receiver of the result
 * Threading  plain values
 */
#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct transfer_job {
    const char *url; /* an https, http or file URL; NULL: use |content_fd| */
    /* Borrowed; the file that the client has opened, or that of a file: URL; -1: none. */
    int content_fd;
    int manifest_fd;  /* borrowed; the signed manifest; -1: none */
    const char *name; /* the package's file name; NULL: the URL's last part */
    /* SHA-256 that the fetched file must have, 64 hexadecimal digits; NULL: any. */
    const char *sha256;
    const char *staging;      /* directory to put the result into */
    const char *trusted_keys; /* directory with the trusted keys, *.pub */
    /* If |trusted_keys| is a copy, the path of the original, for messages; otherwise NULL. */
    const char *keys_shown;
    uint64_t size_limit; /* maximum bytes of the fetched file and of the unpacked one */
    unsigned disk_part;  /* a user's file may take 1/disk_part of the disk's free space */
    bool require_signature;
    bool of_user; /* a cache or tuning file that a user imports, not a package */
    /* Only with of_user. True if the file is not a kernel database, so that the code that reads it
     * must check the rows. */
    bool unchecked;
};

struct transfer_progress {
    const char *stage;    /* "fetching", "unpacking" or "checking" */
    uint64_t done, total; /* bytes or rows; |total| 0: not known */
    unsigned attempt;     /* counts from 1 */
    const char *note;     /* why the previous attempt failed; "" if there was none */
};

/* Name of the checked manifest in the staging directory. kilnd checks the manifest again, because
 * it does not trust a process that is exposed to the network. */
#define TRANSFER_MANIFEST ".manifest"
#define TRANSFER_MANIFEST_MAX (256u << 10)

struct transfer_result {
    /* If this is KILN_OK, the members below are set; otherwise staging is empty. */
    struct kiln_err err;
    /* Path of the checked file in staging; the receiver renames or removes it. */
    char path[512];
    char name[256];   /* name of the package without .bz2, such as "gfx90a68.kdb" */
    char sha256[65];  /* SHA-256 of the checked file */
    char signer[64];  /* name of the key; "" if unsigned */
    char source[256]; /* the URL without credentials and query; "" for a descriptor */
    uint64_t size;    /* bytes */
    uint64_t rows;
    char fetched[256]; /* the file's name in the manifest, such as "gfx90a68.kdb.bz2" */
    uint8_t *manifest; /* owned by the receiver of the result; NULL: none */
    size_t manifest_size;
};
