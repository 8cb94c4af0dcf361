/* SPDX-License-Identifier: MIT */

#include "tests/support/test.h"
#include "tests/unit/cli/kilnctl_fake.h"
#include "tests/unit/cli/scratch_directory.h"

#include <kiln/kernel.h>

struct kiln_kernel {
    char key[65];
};

static struct {
    int code;
    const char *text;
    char asked[512];
    unsigned unrefs;
} fake_kernels;

static int fake_fetch(struct kiln_kernel **ret_kernel, struct kiln_error *err)
{
    static struct kiln_kernel kernel = { .key = "abcd" };
    if (!fake_kernels.code) {
        *ret_kernel = &kernel;
        return KILN_E_OK;
    }
    *err = (struct kiln_error){ .code = fake_kernels.code };
    snprintf(err->text, sizeof(err->text), "%s", fake_kernels.text ? fake_kernels.text : "");
    return err->code;
}

int kiln_kernel_fetch(struct kiln_client *client, const char *key, int timeout_ms,
                      struct kiln_kernel **ret_kernel, struct kiln_error *err)
{
    (void)client, (void)timeout_ms;
    snprintf(fake_kernels.asked, sizeof(fake_kernels.asked), "%s", key);
    return fake_fetch(ret_kernel, err);
}

int kiln_kernel_fetch_named(struct kiln_client *client, const struct kiln_kernel_name *name,
                            struct kiln_kernel **ret_kernel, struct kiln_error *err)
{
    (void)client;
    snprintf(fake_kernels.asked, sizeof(fake_kernels.asked), "%s|%s|%s", name->database_id,
             name->name, name->args ? name->args : "");
    return fake_fetch(ret_kernel, err);
}

void kiln_kernel_unref(struct kiln_kernel *kernel) { fake_kernels.unrefs += kernel != NULL; }
const void *kiln_kernel_data(const struct kiln_kernel *kernel)
{
    return kernel ? "\x7f"
                    "ELF"
                  : NULL;
}
size_t kiln_kernel_size(const struct kiln_kernel *kernel) { return kernel ? 4 : 0; }
const char *kiln_kernel_key(const struct kiln_kernel *kernel) { return kernel->key; }
int kiln_kernel_tier(const struct kiln_kernel *kernel)
{
    return kernel ? KILN_TIER_PACKAGE : KILN_TIER_NONE;
}

struct fixture {
    struct command_run run;
    const char *directory;
    char out[512], text[256];
};

SET_UP(set_up)
{
    f->directory = fake_begin();
    memset(&fake_kernels, 0, sizeof(fake_kernels));
    scratch_path(f->directory, "out", f->out);
}

FIXTURE(kilnctl_kernels, set_up, NULL);

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

TEST_F(kilnctl_kernels, kernel_fetch_sends_name_and_arguments_verbatim)
{
    int rc = RUN(&f->run, "kernel", "fetch", "--db-id", "gfx906_60", "--name", "conv3x3.s.o",
                 "--args", "  -Wa,-defsym  x", "-o", f->out);
    assert_int_equal(rc, KILN_E_OK);
    assert_string_equal(fake_kernels.asked, "gfx906_60|conv3x3.s.o|  -Wa,-defsym  x");
    assert_string_equal(scratch_read(f->directory, "out", f->text, 256), "\x7f"
                                                                         "ELF");
    assert_says(f->run.printed, "/out: 4");
    assert_says(f->run.printed, "package");
    assert_int_equal(fake_kernels.unrefs, 1);
}

TEST_F(kilnctl_kernels, a_kernel_may_have_no_arguments)
{
    assert_int_equal(RUN(&f->run, "kernel", "fetch", "--db-id", "gfx906_60", "--name", "n", "-o",
                         f->out, "--args", "", "--json"),
                     KILN_E_OK);
    assert_string_equal(fake_kernels.asked, "gfx906_60|n|");
    assert_says(f->run.printed, "/out\",\"key\":\"abcd\",\"size\":4,\"tier\":\"package\"}\n");
}

TEST_F(kilnctl_kernels, a_whole_key_is_fetched_without_being_looked_up)
{
    assert_int_equal(RUN(&f->run, "kernel", "fetch", KEY, "-o", f->out), KILN_E_OK);
    assert_string_equal(fake_kernels.asked, KEY);
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_kernels, the_beginning_of_a_key_is_completed_first)
{
    fake.answers[0].reply = "{\"key\":\"" KEY "\"}";
    assert_int_equal(RUN(&f->run, "kernel", "fetch", "0011", "-o", f->out), KILN_E_OK);
    assert_string_equal(fake.requests[0], "kernel_show {\"key\":\"0011\"}");
    assert_string_equal(fake_kernels.asked, KEY);
}

TEST_F(kilnctl_kernels, a_missing_kernel_is_reported_and_no_file_is_written)
{
    fake_kernels.code = KILN_E_NOT_FOUND;
    assert_int_equal(RUN(&f->run, "kernel", "fetch", KEY, "-o", f->out), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "why-miss");
    fake.answers[0].reply = "{\"kernels\":[]}";
    assert_int_equal(
        RUN(&f->run, "kernel", "fetch", "--db-id", "gfx906_60", "--name", "n", "-o", f->out),
        KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "blanks");
    assert_false(scratch_has(f->directory, "out"));
}

#define ROW(id, args) \
    "{\"key\":\"aa\",\"database_id\":\"" id "\",\"program\":\"n\",\"options\":\"" args "\"}"

TEST_F(kilnctl_kernels, a_miss_of_a_plain_id_names_the_versions_with_the_kernel)
{
    fake_kernels.code = KILN_E_NOT_FOUND;
    fake_kernels.text = "no kernel 'n' for gfx906_60 here";
    fake.answers[0].reply =
        "{\"kernels\":[" ROW("gfx906_60@2.17.0", "-a") "," ROW("gfx906_60@2.17", "-a") "," ROW(
            "gfx906_60@2.17.0", "-a") "," ROW("gfx906_60@3.2.0", "-a") "," ROW("gfx906_60@3.5.0",
                                                                               "-b") "]}";
    assert_int_equal(RUN(&f->run, "kernel", "fetch", "--db-id", "gfx906_60", "--name", "n",
                         "--args", "-a", "-o", f->out),
                     KILN_E_NOT_FOUND);
    assert_string_equal(fake.requests[0], "kernel_list {\"database_id\":\"gfx906_60\","
                                          "\"program\":\"n\",\"count\":500}");
    assert_says(f->run.err.text, "2.17.0, 2.17,");
    assert_says(f->run.err.text, "gfx906_60@2.17.0");
}

TEST_F(kilnctl_kernels, a_miss_of_one_version_is_not_looked_up_again)
{
    fake_kernels.code = KILN_E_NOT_FOUND;
    assert_int_equal(
        RUN(&f->run, "kernel", "fetch", "--db-id", "gfx906_60@3.2.0", "--name", "n", "-o", f->out),
        KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "'gfx906_60@3.2.0'");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_kernels, a_miss_is_reported_although_the_versions_cannot_be_listed)
{
    fake_kernels.code = KILN_E_NOT_FOUND;
    fake.answers[0].code = KILN_E_BUSY;
    assert_int_equal(
        RUN(&f->run, "kernel", "fetch", "--db-id", "gfx906_60", "--name", "n", "-o", f->out),
        KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "blanks");
}

TEST_F(kilnctl_kernels, kernel_fetch_reports_that_the_environment_disables_the_cache)
{
    fake_kernels.code = KILN_E_NOT_FOUND;
    fake_kernels.text = "stored kernels are not used: KILN_DISABLE_CACHE is set";
    assert_int_equal(setenv("KILN_DISABLE_CACHE", "1", 1), 0);
    assert_int_equal(
        RUN(&f->run, "kernel", "fetch", "--db-id", "gfx906_60", "--name", "n", "-o", f->out),
        KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "KILN_DISABLE_CACHE");
    assert_int_equal(RUN(&f->run, "kernel", "fetch", KEY, "-o", f->out), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "KILN_DISABLE_CACHE");
    unsetenv("KILN_DISABLE_CACHE");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_kernels, kernel_fetch_needs_a_kernel_and_an_output)
{
    assert_int_equal(RUN(&f->run, "kernel", "fetch", "-o", f->out), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "kernel", "fetch", "--name", "n", "-o", f->out), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "kernel", "fetch", KEY, "--name", "n", "-o", f->out),
                     KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "kernel", "fetch", KEY), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "kernel", "fetch", KEY, "-o", "-", "--json"), KILN_E_INVALID);
    f->run.common.json = false;
    assert_int_equal(RUN(&f->run, "kernel", "fetch", "xyz", "-o", f->out), KILN_E_INVALID);
    assert_string_equal(fake_kernels.asked, "");
}

TEST_F(kilnctl_kernels, a_kernel_may_go_to_standard_output)
{
    assert_int_equal(RUN(&f->run, "kernel", "fetch", KEY, "-o", "-"), KILN_E_OK);
    assert_string_equal(f->run.printed, "\x7f"
                                        "ELF");
}

TEST_F(kilnctl_kernels, kernels_are_pinned_by_key)
{
    fake.answers[0].reply = "{\"pinned\":true,\"kernels\":2}";
    assert_int_equal(RUN(&f->run, "kernel", "pin", "aa", "bb"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "kernel_pin {\"keys\":[\"aa\",\"bb\"],\"pin\":true}");
    assert_says(f->run.printed, "2 kernels");
}

TEST_F(kilnctl_kernels, kernels_are_unpinned_by_target)
{
    fake.answers[0].reply = "{\"pinned\":false,\"kernels\":1200}";
    assert_int_equal(RUN(&f->run, "kernel", "unpin", "--target", "gfx90a"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "kernel_pin {\"target\":\"gfx90a\",\"pin\":false}");
    assert_says(f->run.printed, "1 200");
    assert_says(f->run.printed, "no longer");
}

TEST_F(kilnctl_kernels, kernels_are_pinned_by_name_and_device_and_reported_as_json)
{
    fake.answers[0].reply = "{\"pinned\":true,\"kernels\":3}";
    assert_int_equal(
        RUN(&f->run, "kernel", "pin", "--name", "n.o", "--db-id", "gfx90a68", "--json"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "kernel_pin {\"name\":\"n.o\",\"database_id\":"
                                          "\"gfx90a68\",\"pin\":true}");
    assert_string_equal(f->run.printed, "{\"pinned\":true,\"kernels\":3}\n");
}

TEST_F(kilnctl_kernels, pinning_needs_either_keys_or_filters)
{
    assert_int_equal(RUN(&f->run, "kernel", "pin"), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "kernel", "pin", "aa", "--target", "gfx90a"), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "kernel", "pin", "aa", "nokey"), KILN_E_INVALID);
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_kernels, a_selection_without_matching_kernels_is_not_found)
{
    fake.answers[0].reply = fake.answers[1].reply = "{\"pinned\":true,\"kernels\":0}";
    assert_int_equal(RUN(&f->run, "kernel", "pin", "--db-id", "gfx90a68"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "kernel ls");
    assert_int_equal(RUN(&f->run, "kernel", "unpin", "--name", "n.o"), KILN_E_NOT_FOUND);
    assert_string_equal(f->run.printed, "");
}

TEST_F(kilnctl_kernels, many_keys_are_pinned_in_requests_that_kilnd_reads)
{
    const char *argv[2 + 1001] = { "kernel", "pin" };
    for (size_t i = 2; i < 1003; i++)
        argv[i] = "aa";
    fake.answers[0].reply = fake.answers[1].reply = "{\"kernels\":500}";
    fake.answers[2] = (struct fake_answer){ .code = KILN_E_NOT_FOUND, .text = "no such key" };
    assert_int_equal(command_run(&f->run, 1003, argv), KILN_E_NOT_FOUND);
    assert_int_equal(fake.asked, 3);
    assert_says(f->run.err.text, "1000 kernels");
    assert_string_equal(f->run.printed, "");
}

TEST_F(kilnctl_kernels, a_list_without_kernels_says_so)
{
    fake.answers[0] = (struct fake_answer){ .reply = "{\"kernels\":[]}" };
    assert_int_equal(RUN(&f->run, "kernel", "ls", "--target", "gfx90"), KILN_E_OK);
    assert_says(f->run.printed, "no stored");
}

TEST_F(kilnctl_kernels, a_promotion_says_what_each_user_gets_promoted)
{
    fake.answers[0].reply =
        "{\"users\":[{\"uid\":4294967290,\"compiles\":3,\"promoted\":2,\"held\":1,"
        "\"replaced\":0}],\"compiles\":3,\"promoted\":2,\"held\":1,"
        "\"replaced\":1}";
    assert_int_equal(
        RUN(&f->run, "kernel", "promote", "--target", "sm_90", "--toolchain", "nvrtc 13.0"),
        KILN_E_OK);
    assert_string_equal(fake.requests[0],
                        "kernel_promote {\"target\":\"sm_90\",\"toolchain\":\"nvrtc 13.0\"}");
    assert_says(f->run.printed, "4294967290: 3 compiles, 2 promoted, 1 held\n");
    assert_says(f->run.printed, "--uid");
    assert_says(f->run.printed, "1 result replaced");
}

TEST_F(kilnctl_kernels, a_promotion_can_be_shown_ahead_and_taken_back)
{
    fake.answers[0].reply = "{\"users\":[],\"promoted\":2,\"dry_run\":true}";
    assert_int_equal(RUN(&f->run, "kernel", "promote", "--uid", "1000", "-n"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "kernel_promote {\"uid\":1000,\"dry_run\":true}");
    assert_says(f->run.printed, "dry run");
    assert_says(f->run.printed, "to promote");

    fake.answers[1].reply = "{\"users\":[],\"compiles\":2,\"undo\":true}";
    assert_int_equal(RUN(&f->run, "kernel", "promote", "--undo"), KILN_E_OK);
    assert_string_equal(fake.requests[1], "kernel_promote {\"undo\":true}");
    assert_says(f->run.printed, "taken back");
}
