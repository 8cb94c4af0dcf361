/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Limits the connections of one user, and the bytes of their unfinished frames and unsent replies.
 * Sessions of the same uid share an account.
 *
 * Ownership  the list owns an account while it counts connections
 * Threading  the loop's thread
 */
#include "common/base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct account {
    struct accounts *all; /* borrowed */
    uid_t uid;
    unsigned connections;
    size_t bytes;
    size_t limit; /* of bytes */
    struct list_link link;
};

struct account_limits {
    unsigned connections_uid; /* of one user */
    size_t bytes_uid, bytes;  /* of one user, of all users together */
};

struct accounts {
    struct list list; /* of struct account; owned; only users with a connection */
    struct account_limits limits;
    size_t bytes; /* of all users together */
};

void accounts_init(struct accounts *accounts, const struct account_limits *limits);
/* Counts one more connection.  Returns NULL if the user is at the limit or memory is out. */
struct account *account_join(struct accounts *accounts, uid_t uid);
/* Frees the account after its last connection has left. */
void account_leave(struct account *account);
/* Charges |bytes|.  Returns false, charging nothing, if the user would exceed the limit, or hold
 * more than half of what other users leave of the limit for all. */
bool account_charge(struct account *account, size_t bytes);
/* Reverses account_charge. */
void account_release(struct account *account, size_t bytes);
