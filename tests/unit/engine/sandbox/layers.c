/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/layers.h"

#include "tests/support/test.h"

#include <string.h>

TEST(plain, every_sandbox_layer_has_a_name_and_advice)
{
    for (enum sandbox_layer l = 0; l < LAYERS; l++) {
        const struct sandbox_report report = { .has = LAYERS_ALL & ~(1u << l) };
        assert_true(*layer_name(l) && *report_advice(&report));
        assert_true(strlen(layer_name(l)) < 32);
    }
}

TEST(plain, missing_sandbox_layers_are_named_with_the_first_advice)
{
    char text[LAYERS_TEXT_MAX];
    struct sandbox_report report = { .has = LAYERS_ALL };
    report_missing(&report, text);
    assert_string_equal(text, "");
    assert_string_equal(report_advice(&report), "");

    report.has &= ~(1u << LAYER_network | 1u << LAYER_seccomp);
    report_missing(&report, text);
    assert_string_equal(text, "network, seccomp");
    const char *first = report_advice(&report);
    report.has |= 1u << LAYER_seccomp;
    assert_string_equal(report_advice(&report), first);
}

TEST(plain, all_layer_names_fit_a_report_and_long_reasons_are_cut)
{
    char text[LAYERS_TEXT_MAX], reason[200];
    struct sandbox_report report = { .has = 0 };
    report_missing(&report, text);
    assert_true(strlen(text) + 2 < LAYERS_TEXT_MAX);
    assert_says(text, layer_name(LAYERS - 1));

    memset(reason, 'x', sizeof(reason) - 1);
    reason[sizeof(reason) - 1] = '\0';
    report_add_reason(&report, LAYER_ipc, "no");
    assert_string_equal(report.why, "ipc: no");
    for (int i = 0; i < 5; i++)
        report_add_reason(&report, LAYER_proc, reason);
    assert_int_equal(strlen(report.why), LAYERS_TEXT_MAX - 1);
}
