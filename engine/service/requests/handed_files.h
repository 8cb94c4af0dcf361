/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files that went out with answers, for as long as anybody has them open.
 *
 * Role       a client may keep an unlinked file as long as it likes, and the disk that it takes is
 *            in nobody's quota: here it counts for who asked for it, so that no user fills the disk
 *            that the tuning database lives on
 * Ownership  the engine's; keeps a descriptor of its own of each file, to see whether it is the
 *            last
 * Threading  any thread; closing the last descriptor of a large file takes time, so a lane
 */
#include "engine/store/object.h"

#include <sys/types.h>

struct engine;
struct handed_files;

/* Of one user who is no administrator, open at once: two of the largest answers, and as many bytes
 * as a package may have unless a setting says otherwise. */
#define HANDED_FILES_MAX_UID 128u
#define HANDED_BYTES_MAX_UID (8ull << 30)
/* Of all such users: kilnd has a descriptor of each. */
#define HANDED_FILES_MAX 1024u
/* Of the disk so much is left to the stores, or a sixteenth of it where that is less. */
#define HANDED_FREE_MIN (1ull << 30)

struct handed_to {
    uid_t uid;
    bool is_admin; /* held to what the disk has alone */
};

KILN_MUST_CHECK enum kiln_code handed_files_create(struct handed_files **ret_handed,
                                                   struct kiln_err *err);
void handed_files_destroy(struct handed_files *handed);

/* Before a file is written in |directory|, and again while it is, when it has |size| bytes:
 * KILN_BUSY where the user has too many or too much open, KILN_FULL where the disk has too little
 * room. */
KILN_MUST_CHECK enum kiln_code handed_files_check(struct handed_files *handed,
                                                  const char *directory, const struct handed_to *to,
                                                  uint64_t size, struct kiln_err *err);
/* As object_of_file, and counted from now on. */
KILN_MUST_CHECK enum kiln_code handed_files_give(struct handed_files *handed, const char *path,
                                                 const struct handed_to *to,
                                                 struct object **ret_object, struct kiln_err *err);
/* Lets go of those that nobody else has open. */
void handed_files_sweep(struct handed_files *handed);
unsigned handed_files_count(struct handed_files *handed);

/* On the engine's thread, now and then: sweeps on a lane. */
void handed_files_tick(struct engine *e);
