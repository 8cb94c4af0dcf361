/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The interface through which kilnctl accesses a fleet's tree: in a local directory
 * (fleet_directory.h), or on a server (engine/transfer/fleet_remote.h).
 *
 * Ownership  implementations begin with a struct fleet_store, and own what they need
 * Threading  one thread; every call blocks
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "engine/fleet/fleet_names.h"

/* Maximum size of a tag, a text that changes with the content of a file (HTTP's ETag). */
#define FLEET_TAG_MAX 160

struct fleet_file { /* a file to read */
    char name[FLEET_NAME_MAX];
    uint64_t offset, size;   /* a range; if |size| is 0, the whole file */
    struct buffer content;   /* the caller sets its limit, and owns it */
    char tag[FLEET_TAG_MAX]; /* "": the store has no tags */
    enum kiln_code rc;       /* KILN_NOT_FOUND: there is no such file */
    struct kiln_err err;     /* filled unless |rc| is KILN_OK */
};

struct fleet_listed { /* borrowed for the call */
    const char *name;
    bool is_directory;
    uint64_t bytes;    /* of a file */
    uint64_t modified; /* of a file, in seconds since 1970; UINT64_MAX: unknown */
};
typedef enum kiln_code fleet_each(void *context, const struct fleet_listed *listed,
                                  struct kiln_err *err);

struct fleet_store;

struct fleet_store_ops {
    /* Reads files, if possible at the same time. Returns an error only if the store itself fails;
     * the members |rc| are then not set. */
    enum kiln_code (*read)(struct fleet_store *store, struct fleet_file *files, size_t count,
                           struct kiln_err *err);
    /* Adds a file, unless it exists already. |ret_added| may be NULL. */
    enum kiln_code (*add)(struct fleet_store *store, const char *name, struct bytes content,
                          bool *ret_added, struct kiln_err *err);
    /* Replaces |file|, which was read before, or adds it if it did not exist. Returns KILN_BUSY if
     * another host has changed or added the file meanwhile; not every store can notice that. */
    enum kiln_code (*replace)(struct fleet_store *store, const struct fleet_file *file,
                              struct bytes content, struct kiln_err *err);
    /* Calls |each| for the files and directories in a directory, until |each| fails. A directory
     * that does not exist is empty. */
    enum kiln_code (*list)(struct fleet_store *store, const char *directory, fleet_each *each,
                           void *context, struct kiln_err *err);
    /* Deletes a file. A file that does not exist is no error. */
    enum kiln_code (*remove)(struct fleet_store *store, const char *name, struct kiln_err *err);
};

struct fleet_store {
    const struct fleet_store_ops *ops;
};
