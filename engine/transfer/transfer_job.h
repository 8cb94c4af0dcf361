/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One file for the package directory, and the result of getting it.
 *
 * Role       the engine's request and its result: a separate process (kiln-transfer) without access
 *            to the stores fetches, unpacks and checks the file
 * Ownership  a job borrows everything; a result's file belongs to the receiver of the result
 * Threading  plain values
 */
#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct transfer_job {
    const char *url;          /* https, http or file; NULL: |content_fd| */
    int content_fd;           /* borrowed: opened by the client, or of a file: URL; -1: none */
    int manifest_fd;          /* borrowed: the signed manifest; -1: none */
    const char *name;         /* the package's file name; NULL: the URL's last part */
    const char *sha256;       /* 64 hexadecimal digits, of the fetched file; NULL: unknown */
    const char *staging;      /* directory to put the result into */
    const char *trusted_keys; /* directory of *.pub */
    const char *keys_shown;   /* that path in messages, if it is a copy; NULL: as it is */
    uint64_t size_limit;      /* bytes, for the fetched and for the unpacked file */
    unsigned disk_part;       /* a user's file may take 1/disk_part of the disk's free space */
    bool require_signature;
    bool of_user;   /* a cache or tuning file that a user imports, not a package */
    bool unchecked; /* with of_user: not a kernel database; its reader must check the rows */
};

struct transfer_progress {
    const char *stage;    /* "fetching", "unpacking", "checking" */
    uint64_t done, total; /* bytes or rows; total 0: not known */
    unsigned attempt;     /* from 1 */
    const char *note;     /* why the previous attempt failed; "" */
};

/* The checked manifest, in staging. kilnd checks it again, because it does not trust a process that
 * is exposed to the network. */
#define TRANSFER_MANIFEST ".manifest"
#define TRANSFER_MANIFEST_MAX (256u << 10)

struct transfer_result {
    struct kiln_err err; /* KILN_OK: the rest is set; otherwise staging is empty */
    char path[512];      /* of the checked file, in staging; the receiver renames or removes it */
    char name[256];      /* "gfx90a68.kdb", without .bz2 */
    char sha256[65];     /* of that file */
    char signer[64];     /* "" when unsigned */
    char source[256];    /* the URL without credentials and query; "" for a descriptor */
    uint64_t size;       /* bytes */
    uint64_t rows;
    char fetched[256]; /* its name in the manifest: "gfx90a68.kdb.bz2" */
    uint8_t *manifest; /* owned by the receiver of the result; NULL: none */
    size_t manifest_size;
};
