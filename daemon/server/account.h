/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Limits the connections of one user, and the bytes of their unfinished frames and unsent replies.
 * Sessions of the same uid share an account.
 *
 * Ownership  the list owns the accounts. account_join creates an account for a user's first
 *            connection
 * Threading  the loop's thread
 */
#include "common/base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct account {
    struct accounts *all;
    uid_t uid;
    unsigned connections;
    size_t bytes;
    size_t limit;
    struct list_link link;
};

struct account_limits {
    unsigned connections_uid; /* limit for one user */
    size_t bytes_uid, bytes;  /* limits for one user, and for all users together */
};

struct accounts {
    struct list list;
    struct account_limits limits;
    size_t bytes; /* bytes of all users together */
};

void accounts_init(struct accounts *accounts, const struct account_limits *limits);
/* Returns NULL if the user is at the limit, or if out of memory. */
struct account *account_join(struct accounts *accounts, uid_t uid);
/* Frees the account after the last connection. */
void account_leave(struct account *account);
/* Returns false, and charges nothing, if the user would exceed one of two limits: the limit for one
 * user, or half of the bytes that remain if the other users' bytes are subtracted from the limit
 * for all users. */
bool account_charge(struct account *account, size_t bytes);
void account_release(struct account *account, size_t bytes);
