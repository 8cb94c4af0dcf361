/* SPDX-License-Identifier: MIT */
#include "daemon/workers/worker_user.h"

#include "common/base/fs.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    const char *directory;
    struct worker_user user;
    struct kiln_err err;
};

SET_UP(set_up) { *f = (struct fixture){ .directory = test_directory(), .err = KILN_ERR_INIT }; }

TEAR_DOWN(tear_down) { assert_true(getuid() != 0 || seteuid(0) == 0); }

FIXTURE(user, set_up, tear_down);

static enum kiln_code find_user(struct fixture *f, const char *name)
{
    return worker_user_find(&worker_compilers, name, &f->user, &f->err);
}

TEST_F(user, an_empty_name_means_the_user_of_kilnd)
{
    must(find_user(f, ""), f->err);
    assert_int_equal(f->user.uid, geteuid());
    assert_int_equal(f->user.gid, getegid());
    assert_false(f->user.other);
}

TEST_F(user, the_user_of_a_unit_is_its_account)
{
    static const struct worker_kind nobody = { "tests", "no_setting", "nobody", "1" };
    static const struct worker_kind unknown = { "tests", "no_setting", "kiln-test-nobody", "1" };

    must(worker_user_of_service(&nobody, &f->user, &f->err), f->err);
    assert_string_equal(f->user.name, "nobody");
    assert_false(f->user.other);

    assert_int_equal(worker_user_of_service(&unknown, &f->user, &f->err), KILN_NOT_FOUND);
    assert_says(f->err.text, "'kiln-test-nobody'");
}

TEST_F(user, root_may_name_an_account_or_a_number)
{
    NEED_ROOT();
    must(find_user(f, "daemon"), f->err); /* user 1 on every Linux */
    assert_true(f->user.other && f->user.uid == 1 && f->user.gid == 1);
    must(find_user(f, "1"), f->err);
    assert_string_equal(f->user.name, "daemon");
    must(find_user(f, "4000000000"), f->err); /* no account has this number */
    assert_true(f->user.other && f->user.uid == 4000000000u && f->user.gid == 4000000000u);
    assert_string_equal(f->user.name, "4000000000");
    must(find_user(f, "root"), f->err);
    assert_false(f->user.other);
}

TEST_F(user, the_standard_user_exists_and_is_not_root)
{
    NEED_ROOT();
    const char *standard = NULL;
    must(worker_user_standard(&worker_compilers, &standard, &f->err), f->err);
    must(find_user(f, standard), f->err);
    assert_true(f->user.other);
    assert_int_not_equal(f->user.uid, 0);
}

TEST_F(user, a_missing_user_is_refused_with_the_command_that_adds_it)
{
    static const char *const absent[] = { "no-such-user", "12x", "-1", "4294967295" };
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        assert_int_equal(find_user(f, absent[i]), KILN_NOT_FOUND);
        assert_says(f->err.text, absent[i]);
        assert_says(f->err.text, "compiler_user");
        assert_says(f->err.text, "useradd");
    }
}

TEST_F(user, transfers_have_their_own_setting_and_account)
{
    assert_int_equal(worker_user_find(&worker_transfers, "no-such-user", &f->user, &f->err),
                     KILN_NOT_FOUND);
    assert_says(f->err.text, "transfer_user");
    assert_string_not_equal(worker_transfers.account, worker_compilers.account);
}

TEST_F(user, compilers_and_transfers_are_never_one_user)
{
    struct worker_user compilers, transfers;
    NEED_ROOT();
    must(worker_user_find(&worker_compilers, worker_compilers.stand_in, &compilers, &f->err),
         f->err);
    must(worker_user_find(&worker_transfers, worker_transfers.stand_in, &transfers, &f->err),
         f->err);
    assert_true(transfers.other && compilers.uid != transfers.uid);
    must(worker_users_differ(&compilers, &transfers, &f->err), f->err);

    assert_int_equal(worker_users_differ(&compilers, &compilers, &f->err), KILN_INVALID);
    assert_says(f->err.text, "--transfer-user");
    /* "" means kilnd's own user, which compilers and transfers may share */
    must(find_user(f, ""), f->err);
    must(worker_users_differ(&f->user, &f->user, &f->err), f->err);
}

TEST_F(user, an_ordinary_user_may_name_only_themselves)
{
    assert_int_equal(geteuid() == 0 ? seteuid(65534) : 0, 0);
    char own[16];
    snprintf(own, sizeof(own), "%u", (unsigned)geteuid());
    must(find_user(f, own), f->err);
    assert_false(f->user.other);
    assert_int_equal(find_user(f, "daemon"), KILN_DENIED);
    assert_says(f->err.text, "root's");
}

/* The users are an unrelated one, one of the directory's group, and the directory's owner. */
TEST_F(user, the_mode_decides_who_may_enter_a_directory)
{
    struct stat seen;
    assert_int_equal(stat(f->directory, &seen), 0);
    struct worker_user users[] = { { .uid = 4321, .gid = 4321, .other = true },
                                   { .uid = 4321, .gid = seen.st_gid, .other = true },
                                   { .uid = seen.st_uid, .gid = 4321, .other = true } };
    static const mode_t modes[] = { 0701, 0710, 0100 };
    for (size_t u = 0; u < 3; u++) {
        for (size_t m = 0; m < 3; m++) {
            assert_int_equal(chmod(f->directory, modes[m]), 0);
            bool may = worker_user_may_enter(&users[u], f->directory);
            assert_int_equal(may, u == 2 || u == m);
        }
    }
    assert_int_equal(chmod(f->directory, 0700), 0);
}

TEST_F(user, every_directory_on_a_path_counts_and_links_are_followed)
{
    const struct worker_user user = { .uid = 4321, .gid = 4321, .other = true };
    char inner[96], link[96];
    snprintf(inner, sizeof(inner), "%s/inner", f->directory);
    snprintf(link, sizeof(link), "%s.link", f->directory);
    assert_int_equal(mkdir(inner, 0755) || chmod(inner, 0755), 0);
    assert_int_equal(symlink(inner, link), 0);

    bool closed = worker_user_may_enter(&user, inner) || worker_user_may_enter(&user, link);
    assert_int_equal(chmod(f->directory, 0711), 0);
    bool open = worker_user_may_enter(&user, inner) && worker_user_may_enter(&user, link);

    assert_int_equal(unlink(link), 0);
    assert_false(closed);
    assert_true(open);
    assert_false(worker_user_may_enter(&user, "/no/such/directory"));
}

TEST_F(user, the_user_of_kilnd_is_not_checked)
{
    must(find_user(f, ""), f->err);
    assert_true(worker_user_may_enter(&f->user, "/no/such/directory"));
}
