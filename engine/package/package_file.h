/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A package's file, seen from outside: which one it is, and whether all of it is there.
 *
 * Threading  pure functions but for the files they look at
 */
#include "common/digest.h"
#include "common/err.h"

struct file_identity { /* a file that was changed or replaced has another one */
    uint64_t device, inode, size;
    int64_t modified_ns;
    int64_t changed_ns; /* its permissions, too */
    uint64_t log_size;  /* of the write-ahead log beside it; 0 when there is none */
};

_Static_assert(sizeof(struct file_identity) == 6 * sizeof(uint64_t), "no holes: it is hashed");

bool file_identity_equal(const struct file_identity *a, const struct file_identity *b);
/* |name| below |directory_fd|, symbolic links followed; false when there is no such regular file.
 */
bool file_identity_at(int directory_fd, const char *name, struct file_identity *ret_identity);

/* Looks at |path|: KILN_CORRUPT when it is no SQLite file, KILN_BUSY when less is there than its
 * header says, KILN_UNSUPPORTED when there is a write-ahead log that counts. */
KILN_MUST_CHECK enum kiln_code package_file_look(const char *path,
                                                 struct file_identity *ret_identity,
                                                 uint32_t *ret_application_id,
                                                 uint32_t *ret_version, struct kiln_err *err);
/* The same of a file's bytes, which lie in memory; |name| is for sentences.  Its identity is its
 * size. */
KILN_MUST_CHECK enum kiln_code package_image_look(struct bytes image, const char *name,
                                                  struct file_identity *ret_identity,
                                                  uint32_t *ret_application_id,
                                                  uint32_t *ret_version, struct kiln_err *err);
/* SHA-256 of what |fd| has, from its start. */
KILN_MUST_CHECK enum kiln_code package_file_hash(int fd, struct digest *ret_sha256,
                                                 struct kiln_err *err);
