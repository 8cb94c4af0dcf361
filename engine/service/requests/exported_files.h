/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The files that were sent with answers and that any process still has open.
 *
 * Role       limits the disk space of such files. A client may keep an unlinked file open as long
 *            as it likes, and no other quota counts its space. The space counts for the user who
 *            requested the file, so that no user can fill the disk
 * Ownership  the engine owns the struct; a watch of each file reports when no process has it open.
 *            The struct takes over the descriptor when the last reference to a file's object is
 *            dropped
 * Threading  any thread
 */
#include "common/base/list.h"
#include "engine/store/object.h"

#include <sys/types.h>

struct engine;
struct exported_files;

/* Limits of one user: enough for two exports with ADMIN_FILES_MAX files each, and for a package of
 * the default maximum size. */
#define EXPORTED_FILES_MAX_UID 128u
#define EXPORTED_BYTES_MAX_UID (8ull << 30)
/* Maximum number of files of all users together, except administrators. Each file needs a watch,
 * and Linux limits the number of watches. */
#define EXPORTED_FILES_MAX 1024u
/* Free disk space that is left for the stores; a sixteenth of the disk if that is less. */
#define EXPORTED_FREE_MIN (1ull << 30)

struct export_receiver {
    uid_t uid;
    bool is_admin; /* limited only by the free disk space */
};

KILN_MUST_CHECK enum kiln_code exported_files_create(struct exported_files **ret_files,
                                                     struct kiln_err *err);
void exported_files_destroy(struct exported_files *exported);

/* Disk space that is reserved while a file is written. A zeroed struct reserves nothing. The struct
 * must not move in memory while space is reserved. */
struct export_space {
    struct export_receiver to;
    struct exported_files *exported; /* private to exported_files.c from here on; NULL: nothing
                                      * is reserved */
    struct list_link link;
    uint64_t bytes;
};

/* Changes the reservation |space| to |size| bytes. Call it before the file grows to this size.
 * Returns KILN_BUSY if the user has too many files or bytes open or reserved, and KILN_FULL if
 * there is too little free disk space. */
KILN_MUST_CHECK enum kiln_code exported_files_reserve(struct exported_files *exported,
                                                      const char *directory, uint64_t size,
                                                      struct export_space *space,
                                                      struct kiln_err *err);
/* Does nothing if nothing is reserved. */
void export_space_release(struct export_space *space);
/* Opens the file as an object. From then on, the file counts toward the user's limits instead of
 * the reservation |space|. The caller must remove the file's name, and must not destroy |exported|
 * before the object. */
KILN_MUST_CHECK enum kiln_code exported_files_open(struct exported_files *exported,
                                                   const char *path, struct export_space *space,
                                                   struct object **ret_object,
                                                   struct kiln_err *err);
/* Closes the descriptors of dropped objects. Call it on a work queue, because closing the last
 * descriptor of a removed file takes 0.2 s for a GiB. */
void exported_files_close(struct exported_files *exported);
/* Forgets the files that no process has open. */
void exported_files_sweep(struct exported_files *exported);
unsigned exported_files_count(struct exported_files *exported);

/* Sweeps, and lets a work queue close descriptors. Call this function every few seconds. */
void exported_files_tick(struct engine *e);
