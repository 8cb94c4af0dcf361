/* SPDX-License-Identifier: MIT */
#include "daemon/server/account.h"

#include "common/base/subordinate_uids.h"

#include <stdlib.h>

void accounts_init(struct accounts *accounts, const struct account_limits *limits)
{
    accounts->limits = *limits;
    accounts->bytes = 0;
    list_init(&accounts->list);
}

static struct account *find_account(const struct accounts *accounts, uid_t uid)
{
    LIST_EACH (&accounts->list, struct account, link, a) {
        if (is_one_user(a->uid, uid))
            return a;
    }
    return NULL;
}

static struct account *add_account(struct accounts *accounts, uid_t uid)
{
    struct account *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    a->all = accounts;
    a->uid = uid;
    a->limit = accounts->limits.bytes_uid;
    list_prepend(&accounts->list, &a->link);
    return a;
}

struct account *account_join(struct accounts *accounts, uid_t uid)
{
    if (accounts->limits.connections_uid == 0)
        return NULL;
    struct account *a = find_account(accounts, uid);
    if (!a)
        a = add_account(accounts, uid);
    if (!a || a->connections >= accounts->limits.connections_uid)
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
    struct accounts *all = account->all;
    const size_t others = all->bytes - account->bytes;
    const size_t share = (all->limits.bytes - others) / 2;
    const size_t limit = share < account->limit ? share : account->limit;
    if (account->bytes > limit || bytes > limit - account->bytes)
        return false;
    account->bytes += bytes;
    all->bytes += bytes;
    return true;
}

void account_release(struct account *account, size_t bytes)
{
    account->bytes -= bytes;
    account->all->bytes -= bytes;
}
