/* SPDX-License-Identifier: MIT */
#include "daemon/server/account.h"

#include <stdlib.h>

static struct account *find(const struct accounts *accounts, uid_t uid)
{
    struct account *a = accounts->first;
    while (a && a->uid != uid)
        a = a->next;
    return a;
}

static struct account *add(struct accounts *accounts, uid_t uid)
{
    struct account *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    *a = (struct account){ .uid = uid, .limit = accounts->bytes_max, .next = accounts->first };
    accounts->first = a;
    return a;
}

struct account *account_join(struct accounts *accounts, uid_t uid)
{
    if (accounts->connections_max == 0)
        return NULL;
    struct account *a = find(accounts, uid);
    if (!a)
        a = add(accounts, uid);
    if (!a || a->connections >= accounts->connections_max)
        return NULL;
    a->connections++;
    return a;
}

void account_leave(struct accounts *accounts, struct account *account)
{
    if (--account->connections > 0)
        return;
    struct account **at = &accounts->first;
    while (*at != account)
        at = &(*at)->next;
    *at = account->next;
    free(account);
}

bool account_take(struct account *account, size_t bytes)
{
    if (bytes > account->limit - account->bytes)
        return false;
    account->bytes += bytes;
    return true;
}

void account_give(struct account *account, size_t bytes) { account->bytes -= bytes; }
