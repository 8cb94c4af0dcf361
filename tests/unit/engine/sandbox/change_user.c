/* SPDX-License-Identifier: MIT */
/* Each test changes the user in a child process, because the change is permanent. */
#include "engine/sandbox/change_user.h"

#include "tests/support/child.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define USER 4321
#define GROUP 5432

struct seen {
    enum kiln_code code;
    struct kiln_err err;
    uid_t uid;
    gid_t gid;
    int groups, dumpable;
    bool capable, reads_shadow, returned;
};

static bool has_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    syscall(SYS_capget, &header, data);
    return data[0].effective || data[0].permitted || data[1].effective || data[1].permitted;
}

static bool can_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void observe(struct seen *seen)
{
    seen->uid = getuid();
    seen->gid = getgid();
    seen->groups = getgroups(0, NULL);
    seen->dumpable = prctl(PR_GET_DUMPABLE);
    seen->capable = has_capabilities();
    seen->reads_shadow = can_read("/etc/shadow");
    seen->returned = setuid(0) == 0;
}

static struct seen change_in_child(void (*prepare)(void))
{
    struct seen *shared = test_shared_memory(sizeof(*shared));
    pid_t child = fork();
    if (child == 0) {
        if (prepare)
            prepare();
        shared->code = change_user(USER, GROUP, "compiler_user", &shared->err);
        observe(shared);
        _exit(0);
    }
    assert_int_equal(await_child(child), 0);
    return *shared;
}

static void need_root(void) { NEED_ROOT(); }

static void expect_the_user_alone(const struct seen *seen)
{
    must(seen->code, seen->err);
    assert_int_equal(seen->uid, USER);
    assert_int_equal(seen->gid, GROUP);
    assert_int_equal(seen->groups, 0);
    assert_int_equal(seen->dumpable, 0);
    assert_false(seen->capable);
    assert_false(seen->reads_shadow);
    assert_false(seen->returned);
}

static void join_groups(void)
{
    static const gid_t groups[] = { 0, 42, 100 };
    setgroups(3, groups);
}

TEST(plain, root_keeps_no_user_group_or_capability_after_the_change)
{
    need_root();
    struct seen seen = change_in_child(join_groups);
    expect_the_user_alone(&seen);
}

static void keep_capabilities(void)
{
    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_KEEP_CAPS);
}

TEST(plain, capabilities_are_dropped_despite_securebits_that_keep_them)
{
    need_root();
    struct seen seen = change_in_child(keep_capabilities);
    expect_the_user_alone(&seen);
}

static void become_the_user(void)
{
    setgroups(0, NULL);
    if (setresgid(GROUP, GROUP, GROUP) < 0 || setresuid(USER, USER, USER) < 0)
        _exit(1);
}

TEST(plain, a_process_of_the_wanted_user_keeps_its_user)
{
    need_root();
    struct seen seen = change_in_child(become_the_user);
    expect_the_user_alone(&seen);
}

/* Whether the sanitizer runs a thread of its own, as the thread sanitizer does. This thread would
 * keep the capability to change users. libc aborts a process whose threads have different users. */
#ifdef __SANITIZE_THREAD__
#define SANITIZER_HAS_THREADS true
#else
#define SANITIZER_HAS_THREADS false
#endif

/* Drops all capabilities, as in a container that may not change users. */
static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };
    syscall(SYS_capset, &header, none);
}

TEST(plain, root_unable_to_change_users_is_reported_with_setting_and_capability)
{
    need_root();
    SKIP_IF(SANITIZER_HAS_THREADS, "the sanitizer has threads");
    struct seen seen = change_in_child(drop_capabilities);
    assert_int_equal(seen.code, KILN_DENIED);
    assert_says(seen.err.text, "4321");
    assert_says(seen.err.text, "compiler_user");
    assert_says(seen.err.text, "CAP_SETUID");
}

static void change_only_uid(void)
{
    if (geteuid() == 0 && setresuid(USER, USER, USER) < 0)
        _exit(1);
}

TEST(plain, a_process_with_another_user_or_other_groups_is_refused)
{
    /* If root runs the test, the child changes its user but keeps root's groups. Any other user
     * changes nothing. */
    struct seen seen = change_in_child(change_only_uid);
    assert_int_equal(seen.code, KILN_DENIED);
    assert_says(seen.err.text, "user 4321");
}
