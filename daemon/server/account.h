/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Limits the connections of one user, and the bytes of their unfinished frames and unsent replies.
 * Sessions of the same uid share an account.
 *
 * Ownership  the list owns an account while it counts connections
 * Threading  the loop's thread
 */
#include "common/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct account {
    uid_t uid;
    unsigned connections;
    size_t bytes;
    size_t limit; /* of bytes */
    struct list_link link;
};

struct accounts {
    struct list list; /* of struct account; owned; only users with a connection */
    unsigned connections_max;
    size_t bytes_max;
};

void accounts_init(struct accounts *accounts, unsigned connections_max, size_t bytes_max);
/* Counts one more connection.  Returns NULL if the user is at the limit or memory is out. */
struct account *account_join(struct accounts *accounts, uid_t uid);
/* Frees the account after its last connection has left. */
void account_leave(struct account *account);
/* Charges |bytes|.  Returns false, charging nothing, if the user would exceed the limit. */
bool account_charge(struct account *account, size_t bytes);
/* Reverses account_charge. */
void account_release(struct account *account, size_t bytes);
