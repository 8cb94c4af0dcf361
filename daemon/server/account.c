/* SPDX-License-Identifier: MIT */
#include "daemon/server/account.h"

#include <stdlib.h>

void accounts_init(struct accounts *accounts, unsigned connections_max, size_t bytes_max)
{
    accounts->connections_max = connections_max;
    accounts->bytes_max = bytes_max;
    list_init(&accounts->list);
}

static struct account *find_account(const struct accounts *accounts, uid_t uid)
{
    LIST_EACH (&accounts->list, struct account, link, a) {
        if (a->uid == uid)
            return a;
    }
    return NULL;
}

static struct account *add_account(struct accounts *accounts, uid_t uid)
{
    struct account *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    a->uid = uid;
    a->limit = accounts->bytes_max;
    list_prepend(&accounts->list, &a->link);
    return a;
}

struct account *account_join(struct accounts *accounts, uid_t uid)
{
    if (accounts->connections_max == 0)
        return NULL;
    struct account *a = find_account(accounts, uid);
    if (!a)
        a = add_account(accounts, uid);
    if (!a || a->connections >= accounts->connections_max)
        return NULL;
    a->connections++;
    return a;
}

void account_leave(struct account *account)
{
    if (--account->connections > 0)
        return;
    list_remove(&account->link);
    free(account);
}

bool account_charge(struct account *account, size_t bytes)
{
    if (bytes > account->limit - account->bytes)
        return false;
    account->bytes += bytes;
    return true;
}

void account_release(struct account *account, size_t bytes) { account->bytes -= bytes; }
