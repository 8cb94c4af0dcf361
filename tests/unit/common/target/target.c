/* SPDX-License-Identifier: MIT */
#include "common/target/target.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

TEST(plain, amd_target_features_are_put_into_canonical_order)
{
    struct target t;
    struct kiln_err err = KILN_ERR_INIT;
    char arch[32];
    must(target_parse(bytes_of_text("gfx90a:xnack-:sramecc+"), &t, &err), err);
    assert_string_equal(t.text, "gfx90a:sramecc+:xnack-");
    assert_int_equal(t.family, TARGET_AMDGPU);
    target_arch(&t, arch, sizeof(arch));
    assert_string_equal(arch, "gfx90a");
}

TEST(plain, targets_of_real_devices_are_accepted)
{
    static const struct {
        const char *text;
        enum target_family family;
    } good[] = {
        { "gfx906", TARGET_AMDGPU },          { "gfx1030", TARGET_AMDGPU },
        { "gfx906:sramecc+", TARGET_AMDGPU }, { "gfx942:xnack+", TARGET_AMDGPU },
        { "sm_90", TARGET_NVIDIA },           { "sm_90a", TARGET_NVIDIA },
        { "sm_100", TARGET_NVIDIA },          { "opencl:cpu-znver3:pocl-3.1", TARGET_OPENCL },
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct target t;
        struct kiln_err err = KILN_ERR_INIT;
        must(target_parse(bytes_of_text(good[i].text), &t, &err), err);
        assert_int_equal(t.family, good[i].family);
        assert_string_equal(t.text, good[i].text);
    }
}

TEST(plain, an_invalid_target_is_refused_with_an_example)
{
    static const char *const bad[] = {
        "gfx",
        "gfx90a:xnack",
        "gfx90a:xnack+:xnack-",
        "gfx90a:foo+",
        "sm_",
        "sm_9",
        "sm_90b",
        "sm_9000",
        "opencl:",
        "../../etc",
        "gfx90a xnack",
        "gfx90a;rm",
        "native",
        "GFX90A",
        "gfx9_0a",
        "gfx90a:xnack++",
        "sm_90aa",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct target t;
        struct kiln_err err = KILN_ERR_INIT;
        assert_int_equal(target_parse(bytes_of_text(bad[i]), &t, &err), KILN_INVALID);
        assert_says(err.text, "sm_90 or");
    }
}

TEST(plain, an_invalid_arch_and_an_invalid_feature_are_reported_differently)
{
    struct target t;
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(target_parse(bytes_of_text("gfx9z"), &t, &err), KILN_INVALID);
    assert_says(err.text, "arch");
    assert_int_equal(target_parse(bytes_of_text("gfx90a:foo+"), &t, &err), KILN_INVALID);
    assert_says(err.text, "sramecc+");
}

TEST(plain, an_empty_or_overlong_target_is_refused)
{
    struct target t;
    struct kiln_err err = KILN_ERR_INIT;
    char longer[LIMIT_TARGET_TEXT + 1];
    memset(longer, 'a', sizeof(longer));
    assert_int_equal(target_parse(bytes_of_text(""), &t, &err), KILN_INVALID);
    assert_says(err.text, "gfx90a");
    assert_int_equal(target_parse(bytes_of(longer, sizeof(longer)), &t, &err), KILN_INVALID);
    assert_says(err.text, "too long");
    assert_int_equal(target_parse(bytes_of("gfx90a\0junk", 11), &t, &err), KILN_INVALID);
}

TEST(plain, nvidia_targets_have_a_compute_capability)
{
    static const struct {
        const char *text;
        unsigned capability;
    } known[] = { { "sm_75", 75 },   { "sm_86", 86 }, { "sm_90a", 90 },
                  { "sm_120", 120 }, { "gfx90a", 0 }, { "opencl:cpu-80", 0 } };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct target t;
        struct kiln_err err = KILN_ERR_INIT;
        must(target_parse(bytes_of_text(known[i].text), &t, &err), err);
        assert_int_equal(target_capability(&t), known[i].capability);
    }
}
