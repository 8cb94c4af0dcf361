/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/syscall_filter.h"

#include "tests/support/test.h"

#include <errno.h>
#include <seccomp.h>

/* If memory runs out, libseccomp may omit rules and still return 0. The fakes below do the same if
 * load_omits or add_omits is set. */
static bool load_omits, add_omits, is_loaded;

WRAP(int, seccomp_load, scmp_filter_ctx filter)
{
    (void)filter;
    is_loaded = true;
    errno = load_omits ? ENOMEM : errno;
    return 0;
}

WRAP(int, seccomp_rule_add_array, scmp_filter_ctx filter, uint32_t action, int number,
     unsigned count, const struct scmp_arg_cmp *conditions)
{
    if (!add_omits)
        return __real_seccomp_rule_add_array(filter, action, number, count, conditions);
    errno = ENOMEM;
    return 0;
}

static void install_both(enum kiln_code code)
{
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(syscall_filter_compilers(&err), code);
    assert_int_equal(syscall_filter_transfers(&err), code);
}

TEST(plain, a_filter_that_may_lack_rules_is_an_error)
{
    install_both(KILN_OK);
    assert_true(is_loaded);
    load_omits = true;
    install_both(KILN_NO_MEMORY);
}

TEST(plain, a_filter_that_may_lack_rules_is_not_loaded)
{
    load_omits = is_loaded = false;
    add_omits = true;
    install_both(KILN_NO_MEMORY);
    assert_false(is_loaded);
}
