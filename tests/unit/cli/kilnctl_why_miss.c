/* SPDX-License-Identifier: MIT */

#include "tests/support/test.h"
#include "tests/unit/cli/kilnctl_fake.h"

#include "cli/kilnctl/nap.h"

struct fixture {
    struct command_run run;
};

SET_UP(set_up) { memset(&fake, 0, sizeof(fake)); }

FIXTURE(kilnctl_why_miss, set_up, NULL);

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define NEAREST                                                                                  \
    "{\"found\":false,\"key\":\"" KEY "\",\"message\":\"it is not in the store\","               \
    "\"nearest\":[{\"key\":\"ffee0011223344\",\"same\":[\"program\",\"target\"],\"different\":[" \
    "{\"part\":\"features\",\"wanted\":\":xnack-\",\"there\":\"\"},"                             \
    "{\"part\":\"options\",\"wanted\":\"-DA=1\",\"there\":\"-DA=2\"}]}]}"

TEST_F(kilnctl_why_miss, a_missing_key_is_compared_part_by_part)
{
    fake.answers[0].reply = NEAREST;
    assert_int_equal(RUN(&f->run, "why-miss", KEY), KILN_E_OK);
    assert_string_equal(fake.requests[0], "why_miss {\"key\":\"" KEY "\"}");
    assert_string_equal(f->run.printed, "key " KEY "\n"
                                        "it is not in the store\n"
                                        "nearest ffee00112233, with the same program, target\n"
                                        "  features  wanted  :xnack-\n"
                                        "            there   -\n"
                                        "  options   wanted  -DA=1\n"
                                        "            there   -DA=2\n");
}

static unsigned naps;

void nap_ms(unsigned ms) { naps += ms > 0; }

TEST_F(kilnctl_why_miss, why_miss_waits_for_the_fleets_indices)
{
    fake.answers[0].reply = "{\"fleet_loads\":true,\"message\":\"first\"}";
    fake.answers[1].reply = "{\"message\":\"the fleet has it for gfx90a\"}";
    assert_int_equal(RUN(&f->run, "why-miss", KEY), KILN_E_OK);
    assert_int_equal(naps, 1);
    assert_says(f->run.printed, "for gfx90a");
    assert_null(strstr(f->run.printed, "first"));
}

TEST_F(kilnctl_why_miss, a_key_in_capitals_is_the_same_key)
{
    fake.answers[0].reply = NEAREST;
    assert_int_equal(RUN(&f->run, "why-miss",
                         "00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF"),
                     KILN_E_OK);
    assert_string_equal(fake.requests[0], "why_miss {\"key\":\"" KEY "\"}");
}

TEST_F(kilnctl_why_miss, why_miss_does_not_compare_a_kernel_that_is_found)
{
    fake.answers[0].reply = "{\"key\":\"" KEY "\"}";
    fake.answers[1].reply = "{\"found\":true,\"key\":\"" KEY "\",\"message\":\"it is there\","
                            "\"nearest\":[{\"key\":\"ff\",\"different\":[]}]}";
    assert_int_equal(RUN(&f->run, "why-miss", "0011"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "kernel_show {\"key\":\"0011\"}");
    assert_string_equal(f->run.printed, "key " KEY "\nit is there\n");
}

TEST_F(kilnctl_why_miss, a_kernel_that_is_not_stored_needs_its_whole_key)
{
    fake.answers[0].code = KILN_E_NOT_FOUND;
    assert_int_equal(RUN(&f->run, "why-miss", "0011"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "64");
}

TEST_F(kilnctl_why_miss, why_miss_sends_the_problem_with_its_target)
{
    fake.answers[0].reply = NEAREST;
    int rc = RUN(&f->run, "why-miss", "./bin/MIOpenDriver conv -n 1 -c 8 -k 8 -F 1", "--target",
                 "gfx90a", "--toolchain", "clang", "--db-id", "gfx90a68", "--json");
    assert_int_equal(rc, KILN_E_OK);
    assert_says(fake.requests[0], "why_miss {\"problem\":\"");
    assert_says(fake.requests[0], "conv ");
    assert_says(fake.requests[0], "-F 1");
    assert_says(fake.requests[0], "\"target\":\"gfx90a\",\"toolchain\":\"clang\",\"database_id\":"
                                  "\"gfx90a68\"}");
    assert_int_equal(strncmp(f->run.printed, "{\"answers\":[{\"found\":false,", 27), 0);
    assert_says(f->run.printed, "\"problem\":\"");
}

TEST_F(kilnctl_why_miss, why_miss_asks_about_each_problem_of_a_line)
{
    fake.answers[0].reply = fake.answers[1].reply = fake.answers[2].reply = NEAREST;
    int rc = RUN(&f->run, "why-miss", "-t", "gfx90a", "--", "conv", "-n", "1", "-c", "8", "-k", "8",
                 "-F", "0");
    assert_int_equal(rc, KILN_E_OK);
    assert_int_equal(fake.asked, 3);
    assert_says(fake.requests[0], "-F 1");
    assert_says(fake.requests[1], "-F 2");
    assert_says(fake.requests[2], "-F 4");
}

TEST_F(kilnctl_why_miss, a_missing_target_or_an_invalid_problem_is_refused_before_a_request)
{
    assert_int_equal(RUN(&f->run, "why-miss", "conv -n 1"), KILN_E_INVALID);
    assert_says(f->run.err.text, "--target");
    assert_int_equal(RUN(&f->run, "why-miss", "pool -n 1", "--target", "gfx90a"), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "why-miss", KEY, "--target", "gfx90a"), KILN_E_INVALID);
    assert_int_equal(fake.asked, 0);
}

#define COLLECTED "{\"kernels\":3,\"bytes\":4096,\"dry_run\":false,\"store_bytes\":1048576}"

TEST_F(kilnctl_why_miss, gc_with_yes_reports_dropped_and_remaining_sizes)
{
    fake.answers[0].reply = COLLECTED;
    assert_int_equal(RUN(&f->run, "gc", "--stale", "--to", "1M", "--yes"), KILN_E_OK);
    assert_string_equal(fake.requests[0],
                        "gc {\"stale\":true,\"to_bytes\":1048576,\"dry_run\":false}");
    assert_says(f->run.printed, "dropped 3");
    assert_says(f->run.printed, "4.0 KiB");
    assert_says(f->run.printed, "1.0 MiB");
}

TEST_F(kilnctl_why_miss, a_dry_run_of_gc_is_sent_to_kilnd_and_shown_to_the_user)
{
    fake.answers[0].reply = "{\"kernels\":1,\"bytes\":0,\"dry_run\":true,\"store_bytes\":0}";
    assert_int_equal(RUN(&f->run, "gc", "--to", "0", "--dry-run"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "gc {\"to_bytes\":0,\"dry_run\":true}");
    assert_says(f->run.printed, "would drop");
    assert_says(f->run.printed, "0 B");
}

TEST_F(kilnctl_why_miss, gc_as_json_is_what_kilnd_said)
{
    fake.answers[0].reply = COLLECTED;
    assert_int_equal(RUN(&f->run, "gc", "-y", "--json"), KILN_E_OK);
    assert_string_equal(f->run.printed, COLLECTED "\n");
}

TEST_F(kilnctl_why_miss, gc_that_kilnd_refuses_fails_with_its_message)
{
    fake.answers[0] = (struct fake_answer){ .code = KILN_E_UNAVAILABLE, .text = "not known" };
    assert_int_equal(RUN(&f->run, "gc", "--stale", "-y"), KILN_E_UNAVAILABLE);
    assert_string_equal(f->run.err.text, "not known");
}

TEST_F(kilnctl_why_miss, clear_chooses_by_name_user_toolchain_and_package)
{
    fake.answers[0].reply = "{\"kernels\":1,\"bytes\":10}";
    int rc = RUN(&f->run, "clear", "--name", "n.o", "--uid", "0", "--toolchain", "miopen",
                 "--package", "a.ukdb", "-n");
    assert_int_equal(rc, KILN_E_OK);
    assert_string_equal(fake.requests[0],
                        "clear {\"name\":\"n.o\",\"toolchain\":\"miopen\",\"package\":\"a.ukdb\","
                        "\"uid\":0,\"dry_run\":true}");
    assert_says(f->run.printed, "would drop");
    assert_says(f->run.printed, "10 B");
}

TEST_F(kilnctl_why_miss, clear_all_cannot_be_combined_with_filters)
{
    assert_int_equal(RUN(&f->run, "clear", "--all", "--uid", "0", "-y"), KILN_E_INVALID);
    assert_says(f->run.err.text, "--all");
    assert_says(f->run.err.text, "--uid");
    assert_int_equal(fake.asked, 0);
}
