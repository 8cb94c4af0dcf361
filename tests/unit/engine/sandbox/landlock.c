/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/landlock.h"

#include "tests/support/child.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

TEST(plain, each_landlock_version_gets_only_the_rights_it_knows)
{
    static const struct {
        unsigned files, network, scoped;
    } known[] = {
        { 0, 0, 0 },  { 13, 0, 0 }, { 14, 0, 0 }, { 15, 0, 0 },
        { 15, 2, 0 }, { 16, 2, 0 }, { 16, 2, 2 }, { 16, 2, 2 },
    };
    for (unsigned v = 0; v < sizeof(known) / sizeof(known[0]); v++) {
        struct landlock_rights rights = landlock_rights(v);
        assert_int_equal(rights.files, (1u << known[v].files) - 1);
        assert_int_equal(rights.network, (1u << known[v].network) - 1);
        assert_int_equal(rights.scoped, (1u << known[v].scoped) - 1);
    }
    struct landlock_rights later = landlock_rights(1000);
    assert_int_equal(later.files, 0xffff);
    assert_int_equal(later.scoped, 3);
}

/* Allows only /usr, then tries to open /usr and the root directory. Returns 0 if only /usr could be
 * opened. */
static int open_inside_and_outside(void)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct landlock_rules rules;
    struct landlock_rights all = landlock_rights(landlock_version());
    if (landlock_begin(&all, &rules, &err))
        return 1;
    landlock_allow(&rules, "/usr", LANDLOCK_ACCESS_FS_READ_DIR);
    landlock_allow(&rules, "/nonexistent", LANDLOCK_ACCESS_FS_READ_DIR);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || landlock_enforce(&rules, &err))
        return 2;
    int inside = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int outside = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return inside >= 0 && outside < 0 && errno == EACCES ? 0 : 3;
}

TEST(plain, a_file_that_landlock_does_not_allow_cannot_be_opened)
{
    SKIP_IF(landlock_version() == 0, "this kernel has no Landlock");
    pid_t child = fork();
    if (child == 0)
        _exit(open_inside_and_outside());
    assert_int_equal(await_child(child), 0);
}

TEST(plain, landlock_rights_unknown_to_the_kernel_are_an_error)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct landlock_rules rules;
    const struct landlock_rights absurd = { .files = ~0ull };
    assert_int_not_equal(landlock_begin(&absurd, &rules, &err), KILN_OK);
    assert_says(err.text, "Landlock");
}
