/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The messages between kilnd and kiln-transfer --fleet: one JSON object in each packet
 * (SOCK_SEQPACKET).
 *
 *   set-up   {"url", "writes"}; kilnd sends it once, first
 *   request  {"id", "name", "offset", "size", "size_max"}; or, with a memory file, {"id", "name",
 *            "put"}
 *   answer   {"id", "end"}; with a memory file after reading, if "end" is FLEET_END_DONE
 *
 * Ownership  the receiver owns a received descriptor
 * Threading  plain values
 *
 * A store may have taken control of the process, so kilnd checks the answers, and verifies what is
 * in the files.
 */
#include "common/base/err.h"
#include "engine/fleet/fleet_access.h"

#include <stdbool.h>

#define FLEET_URL_MAX 2048
/* A larger range is refused; the largest record has a little more than 4 MiB. */
#define FLEET_RANGE_SIZE_MAX (16u << 20)

struct fleet_setup {
    char url[FLEET_URL_MAX];
    bool writes; /* files may be added */
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
    bool is_put; /* adds |fd| as the file */
    int fd;      /* the sender keeps its descriptor; -1 unless |is_put| */
};
/* Does not block. Returns KILN_BUSY if the process does not read its socket. */
KILN_MUST_CHECK enum kiln_code fleet_send_request(int socket, const struct fleet_request *request,
                                                  struct kiln_err *err);
/* Does not block. Returns KILN_BUSY if there is no request now, and KILN_UNAVAILABLE if there will
 * be none, both without a message. */
KILN_MUST_CHECK enum kiln_code fleet_receive_request(int socket, struct fleet_request *ret_request,
                                                     struct kiln_err *err);

struct fleet_answer {
    uint64_t id;
    enum fleet_end end;
    int fd; /* -1: none */
};
/* Borrows |answer->fd|. */
KILN_MUST_CHECK enum kiln_code fleet_send_answer(int socket, const struct fleet_answer *answer,
                                                 struct kiln_err *err);
/* Does not block; returns the codes of fleet_receive_request. */
KILN_MUST_CHECK enum kiln_code fleet_receive_answer(int socket, struct fleet_answer *ret_answer,
                                                    struct kiln_err *err);
/* Whether |name| can only be a file of the tree: it has a directory, no part that is empty or
 * begins with a dot, and no other characters than the tree's names. */
bool fleet_name_is_fine(const char *name);
