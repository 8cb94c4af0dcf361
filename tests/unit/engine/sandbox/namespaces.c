/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/namespaces.h"

#include "engine/sandbox/capabilities.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <string.h>
#include <unistd.h>

struct seen {
    struct namespace_ids before, after, again;
    struct namespace_errors first, second;
    uid_t uid;
};

TEST(plain, namespace_numbers_convert_to_text_and_back)
{
    static const char *const bad[] = {
        "", "1", "1,2,3,4", "1,2,3,4,x", "1,2,3,4,5,6", "1,2,3,4,5 "
    };
    struct namespace_ids own, read;
    char text[NAMESPACE_TEXT_MAX];
    namespaces_read(&own);
    for (size_t i = 0; i < NAMESPACES; i++)
        assert_true(own.of[i] > 0);
    namespaces_to_text(&own, text);
    assert_true(namespaces_from_text(text, &read));
    assert_memory_equal(&own, &read, sizeof(own));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(namespaces_from_text(bad[i], &read));
    memset(&own, 0xff, sizeof(own));
    namespaces_to_text(&own, text);
    assert_true(namespaces_from_text(text, &read));
    assert_memory_equal(&own, &read, sizeof(own));
}

/* Leaves the namespaces in a child process, because leaving them is permanent. */
static struct seen leave_in_child(uid_t uid)
{
    struct seen *shared = test_shared_memory(sizeof(*shared));
    pid_t child = fork();
    if (child == 0) {
        if (uid && setresuid(uid, uid, uid) != 0)
            _exit(1);
        namespaces_read(&shared->before);
        namespaces_leave(&shared->before, &shared->first);
        namespaces_read(&shared->after);
        namespaces_leave(&shared->before, &shared->second);
        namespaces_read(&shared->again);
        shared->uid = getuid();
        _exit(0);
    }
    assert_int_equal(await_child(child), 0);
    return *shared;
}

static void expect_private(const struct seen *seen)
{
    static const enum namespace_kind seen_at_once[] = { NAMESPACE_MOUNT, NAMESPACE_NETWORK,
                                                        NAMESPACE_IPC };
    for (size_t i = 0; i < sizeof(seen_at_once) / sizeof(seen_at_once[0]); i++) {
        enum namespace_kind kind = seen_at_once[i];
        assert_int_equal(seen->first.of[kind], 0);
        assert_int_not_equal(seen->after.of[kind], seen->before.of[kind]);
    }
    assert_int_equal(seen->first.of[NAMESPACE_PID], 0);
}

TEST(plain, root_leaves_all_but_its_user_namespace)
{
    NEED_ROOT();
    struct seen seen = leave_in_child(0);
    SKIP_IF(seen.first.of[NAMESPACE_NETWORK], "root has no capability for namespaces here");
    expect_private(&seen);
    if (seen.after.of[NAMESPACE_USER] == seen.before.of[NAMESPACE_USER])
        assert_memory_equal(&seen.after.of[NAMESPACE_NETWORK], &seen.again.of[NAMESPACE_NETWORK],
                            2 * sizeof(uint64_t)); /* private namespaces are not replaced */
}

TEST(plain, an_unprivileged_user_leaves_all_through_a_user_namespace)
{
    const uid_t nobody = 65534;
    struct seen seen = leave_in_child(geteuid() == 0 ? nobody : 0);
    if (seen.first.of[NAMESPACE_USER]) {
        /* This host refuses user namespaces, so no namespace was replaced, and every kind has an
         * errno. */
        for (enum namespace_kind k = NAMESPACE_MOUNT; k < NAMESPACES; k++)
            assert_int_not_equal(seen.first.of[k], 0);
        assert_memory_equal(&seen.before, &seen.after, sizeof(seen.before));
        SKIP("this host refuses user namespaces");
    }
    expect_private(&seen);
    assert_int_not_equal(seen.after.of[NAMESPACE_USER], seen.before.of[NAMESPACE_USER]);
    assert_int_equal(seen.uid, geteuid() == 0 ? nobody : geteuid());
}
