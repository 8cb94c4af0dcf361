/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Limits what one user holds of the daemon: connections, and bytes of unfinished frames and unsent
 * replies.  Sessions of the same uid share an account.
 *
 * Ownership  counted by its sessions; the list owns it
 * Threading  the loop's thread
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct account {
    uid_t uid;
    unsigned connections;
    size_t bytes;
    size_t limit; /* of bytes */
    struct account *next;
};

struct accounts {
    struct account *first; /* owned list, only of users with a connection */
    unsigned connections_max;
    size_t bytes_max;
};

/* Counts one more connection.  NULL when the user has as many as allowed, or memory is out. */
struct account *account_join(struct accounts *accounts, uid_t uid);
void account_leave(struct accounts *accounts, struct account *account);
/* Charges |bytes|.  Returns false, charging nothing, if the user would exceed the limit. */
bool account_take(struct account *account, size_t bytes);
void account_give(struct account *account, size_t bytes);
