/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The messages between kilnd or kilnctl and kiln-transfer --fleet: one JSON object in each packet
 * (SOCK_SEQPACKET).
 *
 *   set-up   {"url", "writes"}; the first packet that kilnd sends
 *   request  to read a file: {"id", "name", "offset", "size", "size_max"};
 *            to add a file: {"id", "name", "put"} with a memory file;
 *            to replace a file: {"id", "name", "put", "replace", "tag"} with a memory file;
 *            to delete a file: {"id", "name", "remove"};
 *            for the files in a directory: {"id", "name", "list", "token"}
 *   answer   {"id", "end", "tag", "token", "wait"}; with a memory file if a file or a list was
 *            read. A list has a line "NAME SIZE TIME" for each file, and "NAME" for each
 *            directory. TIME is in seconds since 1970
 *
 * Ownership  the receiver owns a received descriptor
 * Threading  plain values
 *
 * A malicious store may have taken control of kiln-transfer. So kilnd checks the answers, and
 * verifies the files that come with them.
 */
#include "common/base/err.h"
#include "engine/fleet/fleet_access.h"
#include "engine/fleet/fleet_store.h"

#include <stdbool.h>

#define FLEET_URL_MAX 2048
/* Maximum size of a requested range. The largest record of a tree has a little more than 4 MiB. */
#define FLEET_RANGE_SIZE_MAX (16u << 20)
/* Maximum size of a file that can be added. The largest files are indices and packs. */
#define FLEET_PUT_SIZE_MAX (24u << 20)
#define FLEET_TOKEN_MAX 1024

struct fleet_setup {
    char url[FLEET_URL_MAX];
    bool writes; /* kilnd may add files to the tree */
};
KILN_MUST_CHECK enum kiln_code fleet_send_setup(int socket, const struct fleet_setup *setup,
                                                struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code fleet_receive_setup(int socket, struct fleet_setup *ret_setup,
                                                   struct kiln_err *err);

struct fleet_request {
    uint64_t id;
    char name[FLEET_FILE_NAME_MAX];
    uint64_t offset, size; /* |size| 0: the whole file, of at most |size_max| bytes */
    uint64_t size_max;
    bool is_put; /* the request adds a file with the content of |fd| */
    /* With |is_put|: the file may exist. If |tag| is not "", it must have this tag. */
    bool is_replace;
    char tag[FLEET_TAG_MAX];
    bool is_remove;              /* the request deletes a file */
    bool is_list;                /* the request is for the files in the directory |name| */
    char token[FLEET_TOKEN_MAX]; /* with |is_list|: token of the last answer; "": first page */
    int fd;                      /* -1 unless |is_put|; fleet_send_request does not close it */
};
/* Sends a request without blocking. Returns KILN_BUSY if the socket is full. */
KILN_MUST_CHECK enum kiln_code fleet_send_request(int socket, const struct fleet_request *request,
                                                  struct kiln_err *err);
/* Receives a request without blocking. Returns KILN_BUSY if no request has arrived, and
 * KILN_UNAVAILABLE if kilnd has closed the socket, both without filling |err|. */
KILN_MUST_CHECK enum kiln_code fleet_receive_request(int socket, struct fleet_request *ret_request,
                                                     struct kiln_err *err);

struct fleet_answer {
    uint64_t id;
    enum fleet_end end;
    char tag[FLEET_TAG_MAX];     /* of a whole file that was read; "": the store has none */
    char token[FLEET_TOKEN_MAX]; /* of a list: names the next page; "": there is none */
    uint64_t wait_s;             /* with FLEET_END_BUSY, as in struct fleet_access */
    int fd;                      /* -1: none */
};
/* Borrows |answer->fd|. */
KILN_MUST_CHECK enum kiln_code fleet_send_answer(int socket, const struct fleet_answer *answer,
                                                 struct kiln_err *err);
/* Receives an answer without blocking. Returns the same codes as fleet_receive_request. */
KILN_MUST_CHECK enum kiln_code fleet_receive_answer(int socket, struct fleet_answer *ret_answer,
                                                    struct kiln_err *err);
/* Returns whether |name| can be the name of a file in the tree. Such a name cannot lead out of the
 * tree: it has a directory, only characters that occur in the tree's names, and no part that is
 * empty or begins with a dot. */
bool fleet_name_is_fine(const char *name);
