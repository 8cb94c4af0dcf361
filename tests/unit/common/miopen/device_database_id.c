/* SPDX-License-Identifier: MIT */
#include "common/miopen/device_database_id.h"
#include "tests/support/test.h"

#include <string.h>

static const struct {
    const char *target;
    unsigned compute_units;
    const char *id, *backend;
} known[] = {
    { "gfx906", 60, "gfx906_60", "HIP" },
    { "gfx906", 64, "gfx906_64", "HIP" },
    { "gfx906", 65, "gfx90641", "HIP" },
    { "gfx90a:sramecc+:xnack-", 104, "gfx90a68", "HIP" },
    { "gfx90a:sramecc+:xnack+", 104, "gfx90a_xnack68", "HIP" },
    { "gfx942", 304, "gfx942130", "HIP" },
    { "gfx1100", 0, "gfx1100", "HIP" },
    { "sm_90", 132, "sm_90_132", "CUDA" },
    { "sm_90a", 132, "sm_90_132", "CUDA" },
    { "sm_120f", 188, "sm_120_188", "CUDA" },
    { "sm_86", 46, "sm_86_46", "CUDA" },
    { "sm_90a", 0, "sm_90", "CUDA" },
    { "opencl:pthread-x:PoCL-3.1-0123456789abcdef", 8, "opencl_d6f6dd07", "OpenCL" },
};

static struct target target_of(const char *text)
{
    struct target target;
    struct kiln_err err = KILN_ERR_INIT;
    must(target_parse(bytes_of_text(text), &target, &err), err);
    return target;
}

TEST(plain, a_device_has_one_database_id)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const struct target target = target_of(known[i].target);
        char id[DATABASE_ID_MAX];
        assert_true(database_id_of_device(&target, known[i].compute_units, id));
        assert_string_equal(id, known[i].id);
    }
}

TEST(plain, a_database_id_implies_the_backend_of_its_records)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const struct target target = target_of(known[i].target);
        assert_string_equal(database_id_backend(bytes_of_text(known[i].id)), known[i].backend);
        assert_string_equal(target_backend(target.family), known[i].backend);
        assert_true(target_is_backend(bytes_of_text(known[i].backend)));
    }
    assert_string_equal(database_id_backend(bytes_of_text("")), "HIP");
    assert_false(target_is_backend(bytes_of_text("")));
    assert_false(target_is_backend(bytes_of_text("HIPNOGPU")));
}

TEST(plain, opencl_devices_with_different_targets_have_different_database_ids)
{
    const struct target a = target_of("opencl:pthread-x:PoCL-3.1-0123456789abcdef"),
                        b = target_of("opencl:pthread-x:PoCL-3.1-0123456789abcdee");
    char id_of_a[DATABASE_ID_MAX], id_of_b[DATABASE_ID_MAX], more_units[DATABASE_ID_MAX];
    assert_true(database_id_of_device(&a, 8, id_of_a));
    assert_true(database_id_of_device(&b, 8, id_of_b));
    assert_true(database_id_of_device(&a, 16, more_units));
    assert_string_not_equal(id_of_a, id_of_b);
    assert_string_equal(id_of_a, more_units);
}

TEST(plain, a_database_id_that_is_too_long_is_not_returned)
{
    const struct target longest = target_of("gfx906aaaaaaaaaaaaaaaaaaaaaaaaa"),
                        with_xnack = target_of("gfx906aaaaaaaaaaaaaaaaaaaaaaaaa:xnack+");
    char id[DATABASE_ID_MAX];
    assert_true(database_id_of_device(&longest, 0, id));
    assert_false(database_id_of_device(&longest, 60, id));
    assert_false(database_id_of_device(&with_xnack, 0, id));
}

TEST(plain, tuning_records_of_another_backend_than_the_devices_are_refused)
{
    static const struct {
        const char *id, *backend, *says; /* |says| NULL: the backend is allowed */
    } ways[] = {
        { "gfx90a68", "HIP", NULL },
        { "gfx90a68", "OpenCL", NULL },
        { "gfx90a68", "CUDA", "HIP or OpenCL" },
        { "sm_90_132", "CUDA", NULL },
        { "sm_90_132", "HIP", "sm_90_132" },
        { "sm_90_132", "OpenCL", "not 'OpenCL'" },
        { "opencl_1a2b3c4d", "OpenCL", NULL },
        { "opencl_1a2b3c4d", "HIP", "not 'HIP'" },
        { "opencl_1a2b3c4d", "", "not ''" },
    };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct kiln_err err = KILN_ERR_INIT;
        enum kiln_code rc = database_id_backend_check(bytes_of_text(ways[i].id),
                                                      bytes_of_text(ways[i].backend), &err);
        assert_int_equal(rc, ways[i].says ? KILN_INVALID : KILN_OK);
        if (ways[i].says)
            assert_says(err.text, ways[i].says);
    }
}
