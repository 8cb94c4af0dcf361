/* SPDX-License-Identifier: MIT */
#include "daemon/server/account.h"
#include "tests/support/subordinate_ranges.h"
#include "tests/support/test.h"

#define USERS 20u
#define BYTES_UID 512u
#define BYTES 2048u

struct fixture {
    struct accounts accounts;
    struct account *users[USERS];
};

SET_UP(set_up)
{
    static const struct account_limits limits = { .connections_uid = 1,
                                                  .bytes_uid = BYTES_UID,
                                                  .bytes = BYTES };
    accounts_init(&f->accounts, &limits);
    for (unsigned i = 0; i < USERS; i++) {
        f->users[i] = account_join(&f->accounts, 1000 + i);
        assert_non_null(f->users[i]);
    }
}

TEAR_DOWN(tear_down)
{
    for (unsigned i = 0; i < USERS; i++) {
        account_release(f->users[i], f->users[i]->bytes);
        account_leave(f->users[i]);
    }
    assert_int_equal(f->accounts.bytes, 0);
}

FIXTURE(account, set_up, tear_down);

static size_t charge_all(struct account *user)
{
    size_t bytes = 0;
    while (account_charge(user, 1))
        bytes++;
    return bytes;
}

TEST_F(account, one_user_may_hold_the_limit_of_a_user)
{
    assert_int_equal(charge_all(f->users[0]), BYTES_UID);
}

TEST_F(account, however_many_users_together_stay_within_the_limit_for_all)
{
    for (unsigned i = 0; i < USERS; i++)
        charge_all(f->users[i]);
    assert_in_range(f->accounts.bytes, BYTES / 2, BYTES);
}

TEST_F(account, users_who_hold_much_leave_something_to_the_next_one)
{
    for (unsigned i = 0; i < 5; i++)
        charge_all(f->users[i]);
    assert_true(account_charge(f->users[6], 32));
}

TEST_F(account, bytes_that_a_user_releases_are_free_for_others)
{
    for (unsigned i = 0; i < 4; i++)
        charge_all(f->users[i]);
    assert_false(account_charge(f->users[5], 300));
    account_release(f->users[0], f->users[0]->bytes);
    account_release(f->users[1], f->users[1]->bytes);
    assert_true(account_charge(f->users[5], 300));
}

TEST_F(account, the_subordinate_uids_of_one_range_share_an_account)
{
    set_subordinate_ranges("ann:100000:65536\n");
    struct account *first = account_join(&f->accounts, 100000);
    /* exceeds the account's limit of connections */
    const struct account *second = account_join(&f->accounts, 100001);
    set_subordinate_ranges("");
    assert_non_null(first);
    account_leave(first);
    assert_null(second);
}
