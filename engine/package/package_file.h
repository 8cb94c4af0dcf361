/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Identity and completeness of a package's file, without reading its rows.
 *
 * Threading  pure functions, except for the files they read
 */
#include "common/base/digest.h"
#include "common/base/err.h"

/* Returns true if |code| says that memory or descriptors ran out, or that a file could not be
 * read. */
bool package_failure_is_temporary(enum kiln_code code);

struct file_identity {
    uint64_t device, inode, size;
    int64_t modified_ns;
    int64_t changed_ns; /* also set when the permissions change */
    uint64_t log_size;  /* of the file's write-ahead log; 0: there is none */
};

_Static_assert(sizeof(struct file_identity) == 6 * sizeof(uint64_t), "no holes: it is hashed");

bool file_identity_equal(const struct file_identity *a, const struct file_identity *b);
/* Follows symbolic links. Returns false if |name| is not a regular file. */
bool file_identity_at(int directory_fd, const char *name, struct file_identity *ret_identity);

struct file_header {
    struct file_identity identity;
    uint32_t application_id, version;
};

/* Returns KILN_CORRUPT if |path| is not a SQLite file, KILN_BUSY if it is shorter than its
 * header states, and KILN_UNSUPPORTED if it has a write-ahead log that is not empty. */
KILN_MUST_CHECK enum kiln_code package_file_header(const char *path, struct file_header *ret_header,
                                                   struct kiln_err *err);
/* Like package_file_header, for the content of a built-in package. |name| is for messages. Only the
 * size of the identity is set. */
KILN_MUST_CHECK enum kiln_code package_image_header(struct bytes image, const char *name,
                                                    struct file_header *ret_header,
                                                    struct kiln_err *err);
