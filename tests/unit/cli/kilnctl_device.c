/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/unit/cli/kilnctl_fake.h"

struct fixture {
    struct command_run run;
};

SET_UP(set_up) { fake = (struct fake){ 0 }; }

FIXTURE(kilnctl_device, set_up, NULL);

#define MI210                                                                                \
    "{\"node\":2,\"arch\":\"gfx90a\",\"target\":\"gfx90a:sramecc+\",\"compute_units\":104,"  \
    "\"uuid\":\"GPU-1901ead3a2ecd4a6\",\"database_id\":\"gfx90a68\",\"memory\":68702699520," \
    "\"partitions\":1,\"xcc\":1,\"partition_mode\":\"\"}"
#define PARTITION                                                                           \
    "{\"node\":11,\"arch\":\"gfx942\",\"target\":\"gfx942:sramecc+\",\"compute_units\":38," \
    "\"uuid\":\"\",\"database_id\":\"gfx942_38\",\"partitions\":8,\"xcc\":1,"               \
    "\"partition_mode\":\"CPX\"}"

TEST_F(kilnctl_device, each_device_is_a_row)
{
    fake.answers[0].reply = "{\"devices\":[" MI210 "," PARTITION "],\"skipped\":\"\"}";
    assert_int_equal(RUN(&f->run, "device", "ls"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "devices -");
    assert_non_null(
        strstr(f->run.printed,
               "NODE  TARGET           UNITS    MEMORY  MODE  DATABASE ID  UUID\n"
               "   2  gfx90a:sramecc+    104  64.0 GiB  -     gfx90a68     GPU-1901ead3a2ecd4a6\n"
               "  11  gfx942:sramecc+     38         -  CPX   gfx942_38    -\n"));
}

TEST_F(kilnctl_device, a_host_without_gpus_has_a_message)
{
    fake.answers[0].reply = "{\"devices\":[],\"skipped\":\"node 3: no simd_count\"}";
    assert_int_equal(RUN(&f->run, "device", "ls"), KILN_E_OK);
    assert_says(f->run.printed, "no AMD");
    assert_says(f->run.printed, "node 3:");
}

TEST_F(kilnctl_device, as_json_it_is_what_kilnd_said)
{
    fake.answers[0].reply = "{\"devices\":[" MI210 "],\"skipped\":\"\"}";
    assert_int_equal(RUN(&f->run, "device", "ls", "--json"), KILN_E_OK);
    assert_says(f->run.printed, MI210);
    assert_null(strstr(f->run.printed, "NODE"));
}

TEST_F(kilnctl_device, a_refusal_by_kilnd_fails_the_device_command)
{
    fake.answers[0].code = KILN_E_INVALID;
    fake.answers[0].text = "unknown request type 48";
    assert_int_equal(RUN(&f->run, "device", "ls"), KILN_E_INVALID);
    assert_says(f->run.err.text, "type 48");
    assert_string_equal(f->run.printed, "");
}
