/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Signed manifests. A manifest states the sizes and hashes of files, and is signed with a key
 * (docs/formats/manifest.md).
 *
 *   PACKAGE.manifest  {"manifest": "<JSON text>", "key_id": "<16 hex>", "signature": "<128 hex>"}
 *                     The signature covers exactly the bytes of the member "manifest", whose JSON
 *                     is {"format": "kiln-manifest-1", "version", "time", "files": [...]}. Each
 *                     file has {"name", "size", "sha256"}; a packed file also has "unpacked_size"
 *                     and "unpacked_sha256"
 *   NAME.pub          {"format": "kiln-public-key-1", "name", "key_id", "key": "<64 hex>"}
 *   NAME.key          {"format": "kiln-secret-key-1", "name", "key_id", "secret": "<64 hex>"};
 *                     mode 0600
 *
 * The key id is the first 8 bytes of the SHA-256 of the public key.
 * Threading  pure functions, except for the files they read
 */
#include "common/base/digest.h"
#include "common/base/err.h"

#define MANIFEST_MAX (256u << 10)
#define KEY_NAME_MAX 64 /* with the NUL */

struct manifest_edition { /* decides which of two packages of the same name is newer */
    uint64_t version;     /* chosen by the signer; 0: none */
    uint64_t time;        /* time of signing, in seconds since the epoch; 0: not stated */
};
/* Compares versions, then times.  Returns a negative number if |a| is older. */
int manifest_edition_compare(const struct manifest_edition *a, const struct manifest_edition *b);

struct manifest_file {
    uint64_t size;
    struct digest sha256;
    /* true: the manifest states |unpacked_sha256|, the digest of the file's unpacked content */
    bool has_unpacked;
    struct digest unpacked_sha256;
    struct manifest_edition edition;
    char signer[KEY_NAME_MAX];
};

struct manifest_trust {
    const char *directory; /* contains *.pub */
    /* Messages name this directory instead of |directory|, which may be a copy of it. NULL:
     * messages name |directory|. */
    const char *shown;
};

/*
 * Checks the signature against the trusted keys and finds |file_name|.
 *   KILN_DENIED     the manifest is not signed by a trusted key, or the signature is wrong
 *   KILN_CORRUPT    it is not a manifest
 *   KILN_NOT_FOUND  it has no entry for the file
 */
KILN_MUST_CHECK enum kiln_code manifest_check(struct bytes manifest,
                                              const struct manifest_trust *trust,
                                              const char *file_name, struct manifest_file *ret_file,
                                              struct kiln_err *err);
struct manifest_entry {
    const char *name; /* no path */
    uint64_t size;
    struct digest sha256;
    bool is_packed; /* the next two fields describe the content of the packed file */
    uint64_t unpacked_size;
    struct digest unpacked_sha256;
};
struct manifest_content {
    const struct manifest_entry *entries;
    size_t count;
    struct manifest_edition edition;
};
/* Appends a manifest, signed with the key in |secret_key_file|, which no other user may read. */
KILN_MUST_CHECK enum kiln_code manifest_sign(const char *secret_key_file,
                                             const struct manifest_content *content,
                                             struct buffer *ret_manifest, struct kiln_err *err);
/* Writes NAME.key and NAME.pub into |directory|. Returns KILN_BUSY if one of the two files
 * exists. */
KILN_MUST_CHECK enum kiln_code manifest_keygen(const char *directory, const char *name,
                                               struct kiln_err *err);
