/* SPDX-License-Identifier: MIT */

/* kilnctl kernel import, export, fetch, pin and unpin against a libkiln of this file's own. */
#include "tests/support/test.h"
#include "tests/unit/cli/fake_transfer.h"
#include "tests/unit/cli/kilnctl_fake.h"
#include "tests/unit/cli/scratch_folder.h"

#include <kiln/kernel.h>

/* ---- kernels ---- */

struct kiln_kernel {
    char key[65];
};

static struct {
    int code; /* of a fetch; KILN_E_OK: there it is */
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

int kiln_kernel_fetch_named(struct kiln_client *client, const char *database_id, const char *name,
                            const char *args, int timeout_ms, struct kiln_kernel **ret_kernel,
                            struct kiln_error *err)
{
    (void)client, (void)timeout_ms;
    snprintf(fake_kernels.asked, sizeof(fake_kernels.asked), "%s|%s|%s", database_id, name, args);
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

/* ---- the fixture ---- */

struct fixture {
    struct command_run run;
    struct scratch_folder folder;
    struct told told;
    char first[512], second[512], out[512], text[256];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    memset(&fake, 0, sizeof(fake));
    fake_transfer_is_here = false;
    memset(&fake_kernels, 0, sizeof(fake_kernels));
    scratch_folder_make(&f->folder);
    scratch_write(&f->folder, "gfx90a68.ukdb", "first");
    scratch_write(&f->folder, "gfx906_60.ukdb", "second");
    scratch_path(&f->folder, "gfx90a68.ukdb", f->first);
    scratch_path(&f->folder, "gfx906_60.ukdb", f->second);
    scratch_path(&f->folder, "out", f->out);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    scratch_folder_remove(&f->folder);
    free(f);
    return 0;
}

/* ---- import ---- */

#define ALL_IN \
    "{\"imported\":978,\"damaged\":0,\"lost\":0,\"database_id\":\"gfx90a68\",\"scope\":\"own\"}"
#define SOME_LOST                                                                         \
    "{\"imported\":970,\"damaged\":5,\"lost\":3,\"first\":\"row 7: its md5 is another\"," \
    "\"database_id\":\"gfx90a68\",\"scope\":\"everyone\"}"

static void a_cache_goes_to_kilnd_as_an_open_file_with_its_name_and_source(void **state)
{
    struct fixture *f = *state;
    char expected[1024];
    fake.answers[0].reply = ALL_IN;

    assert_int_equal(RUN(&f->run, "kernel", "import", f->first), KILN_E_OK);

    snprintf(expected, sizeof(expected),
             "kernel_import {\"name\":\"gfx90a68.ukdb\",\"source\":\"%s\"}", f->first);
    assert_string_equal(fake.requests[0], expected);
    assert_int_equal(fake.file_counts[0], 1);
    assert_string_equal(fake.sent[0][0], "first");
    assert_int_equal(fake.timeouts[0], -1);
    assert_says(f->run.printed,
                "gfx90a68.ukdb: 978 kernels for gfx90a68 imported, for you alone\n");
}

static void an_import_for_everyone_of_another_device_says_so_to_kilnd(void **state)
{
    struct fixture *f = *state;
    fake.answers[0].reply = "{\"imported\":1,\"database_id\":\"gfx90a6e\",\"scope\":\"everyone\"}";
    assert_int_equal(RUN(&f->run, "kernel", "import", "--for-all", "--db-id", "gfx90a6e", f->first),
                     KILN_E_OK);
    assert_says(fake.requests[0], ",\"database_id\":\"gfx90a6e\",\"for_all\":true}");
    assert_says(f->run.printed, "1 kernel for gfx90a6e imported, for every user\n");
}

static void an_import_goes_on_after_a_bad_file_and_fails_in_the_end(void **state)
{
    struct fixture *f = *state;
    fake.answers[0] = (struct fake_answer){ .code = KILN_E_CORRUPT, .text = "no kernel database" };
    fake.answers[1].reply = ALL_IN;
    assert_int_equal(RUN(&f->run, "kernel", "import", f->second, f->first, "--json"),
                     KILN_E_CORRUPT);
    assert_int_equal(fake.asked, 2);
    assert_says(f->run.err.text, "gfx906_60.ukdb: no kernel database");
    assert_says(f->run.printed, "{\"files\":[{\"imported\":978,");
    assert_says(f->run.printed, "\"imported\":978,\"damaged\":0,\"lost\":0,\"failures\":[{\"code\":"
                                "\"CORRUPT\"");
    assert_true(f->run.reported);
}

static void what_was_lost_of_a_cache_is_told_and_fails(void **state)
{
    struct fixture *f = *state;
    fake.answers[0].reply = SOME_LOST;
    assert_int_equal(RUN(&f->run, "kernel", "import", f->first), KILN_E_CORRUPT);
    assert_says(f->run.err.text, "970 imported, 5 damaged, 3 lost; row 7: its md5 is another");
    assert_says(f->run.printed, "970 kernels");
}

static void what_was_lost_as_json_counts_all_files_together(void **state)
{
    struct fixture *f = *state;
    fake.answers[0].reply = SOME_LOST;
    fake.answers[1].reply = SOME_LOST;
    told_begin(&f->told);
    int rc = RUN(&f->run, "kernel", "import", f->first, f->second, "--json");
    told_end(&f->told);
    assert_int_equal(rc, KILN_E_CORRUPT);
    assert_says(f->run.printed, "\"imported\":1940,\"damaged\":10,\"lost\":6,");
    assert_says(f->run.printed, "\"error\":{\"code\":\"CORRUPT\"");
    assert_says(f->told.text, "gfx906_60.ukdb': 970 imported");
}

static void what_the_snapshot_lacks_is_a_loss_too(void **state)
{
    struct fixture *f = *state;
    fake_transfer_is_here = true;
    setenv(FAKE_TRANSFER, "merge", 1);
    fake.answers[0].reply = ALL_IN;
    scratch_write(&f->folder, "gfx90a68.ukdb-wal", "log");
    assert_int_equal(RUN(&f->run, "kernel", "import", f->first, "--json"), KILN_E_CORRUPT);
    assert_string_equal(fake.sent[0][0], "first");
    assert_says(f->run.err.text, "978 imported, 0 damaged, 0 lost; one?page");
    assert_says(f->run.printed, "\"note\":\"one?page\"");
}

static void a_cache_that_cannot_be_opened_is_not_sent(void **state)
{
    struct fixture *f = *state;
    fake_transfer_is_here = true;
    setenv(FAKE_TRANSFER, "refuse", 1);
    assert_int_equal(RUN(&f->run, "kernel", "import", f->first), KILN_E_IO);
    assert_says(f->run.err.text, "gfx90a68.ukdb: cannot open it");
    assert_int_equal(fake.asked, 0);
}

static void a_cache_that_is_not_there_does_not_keep_the_others_out(void **state)
{
    struct fixture *f = *state;
    fake.answers[0].reply = ALL_IN;
    assert_int_equal(RUN(&f->run, "kernel", "import", "/nonexistent/a.ukdb", f->first),
                     KILN_E_NOT_FOUND);
    assert_int_equal(fake.asked, 1);
    assert_says(f->run.err.text, "there is no '/nonexistent/a.ukdb'");
}

static void an_import_that_is_not_permitted_ends_at_once(void **state)
{
    struct fixture *f = *state;
    fake.answers[0].code = KILN_E_DENIED;
    assert_int_equal(RUN(&f->run, "kernel", "import", "--for-all", f->first, f->second),
                     KILN_E_DENIED);
    assert_int_equal(fake.asked, 1);
}

/* ---- export ---- */

#define EXPORTED                                                                               \
    "{\"files\":[{\"name\":\"gfx90a68.ukdb\",\"kernels\":978,\"damaged\":0,\"descriptor\":0}," \
    "{\"name\":\"gfx906_60.ukdb\",\"kernels\":7,\"damaged\":2,\"descriptor\":1}]}"

static void exported_caches_are_written_under_their_names(void **state)
{
    struct fixture *f = *state;
    fake.answers[0] = (struct fake_answer){ .reply = EXPORTED, .files = { "new 0", "new 1" } };

    assert_int_equal(RUN(&f->run, "kernel", "export", "--format", "ukdb", f->out), KILN_E_OK);

    assert_string_equal(fake.requests[0], "kernel_export {\"format\":\"ukdb\"}");
    assert_string_equal(scratch_read(&f->folder, "out/gfx90a68.ukdb", f->text, 256), "new 0");
    assert_string_equal(scratch_read(&f->folder, "out/gfx906_60.ukdb", f->text, 256), "new 1");
    assert_says(f->run.printed, "/out/gfx90a68.ukdb: 978 kernels\n");
    assert_says(f->run.printed, "/out/gfx906_60.ukdb: 7 kernels, 2 damaged ones left out\n");
}

static void an_export_of_one_device_as_json_lists_its_file(void **state)
{
    struct fixture *f = *state;
    fake.answers[0] = (struct fake_answer){
        .reply = "{\"files\":[{\"name\":\"gfx90a68.ukdb\",\"kernels\":1,\"descriptor\":0}]}",
        .files = { "x" },
    };
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out, "--db-id", "gfx90a68", "--json"),
                     KILN_E_OK);
    assert_says(fake.requests[0], "\"database_id\":\"gfx90a68\"");
    assert_says(f->run.printed, "/out/gfx90a68.ukdb\",\"kernels\":1,\"damaged\":0}],"
                                "\"failures\":[]}\n");
}

static void an_export_keeps_files_that_are_there_and_writes_the_others(void **state)
{
    struct fixture *f = *state;
    fake.answers[0] = (struct fake_answer){ .reply = EXPORTED, .files = { "new 0", "new 1" } };
    assert_int_equal(unlink(f->second), 0);
    assert_int_equal(RUN(&f->run, "kernel", "export", f->folder.path, "--json"), KILN_E_IO);
    assert_says(f->run.err.text, "--force");
    assert_string_equal(scratch_read(&f->folder, "gfx90a68.ukdb", f->text, 256), "first");
    assert_string_equal(scratch_read(&f->folder, "gfx906_60.ukdb", f->text, 256), "new 1");
    assert_says(f->run.printed, "\"error\":{\"code\":\"IO\"");
}

static void an_export_with_force_replaces_files(void **state)
{
    struct fixture *f = *state;
    fake.answers[0] = (struct fake_answer){ .reply = EXPORTED, .files = { "new 0", "new 1" } };
    assert_int_equal(RUN(&f->run, "kernel", "export", f->folder.path, "--force"), KILN_E_OK);
    assert_string_equal(scratch_read(&f->folder, "gfx90a68.ukdb", f->text, 256), "new 0");
}

static void an_export_never_replaces_a_cache_that_is_in_use(void **state)
{
    struct fixture *f = *state;
    fake.answers[0] = (struct fake_answer){ .reply = EXPORTED, .files = { "new 0", "new 1" } };
    scratch_write(&f->folder, "gfx90a68.ukdb-wal", "log");
    assert_int_equal(RUN(&f->run, "kernel", "export", f->folder.path, "--force"), KILN_E_BUSY);
    assert_says(f->run.err.text, "is in use");
    assert_string_equal(scratch_read(&f->folder, "gfx90a68.ukdb", f->text, 256), "first");
}

static void an_export_writes_nowhere_but_into_its_folder(void **state)
{
    static const char *const replies[] = {
        "{\"files\":[{\"name\":\"../evil.ukdb\",\"descriptor\":0}]}",
        "{\"files\":[{\"name\":\".hidden\",\"descriptor\":0}]}",
        "{\"files\":[{\"name\":\"\",\"descriptor\":0}]}",
        "{\"files\":[{\"name\":\"a.ukdb\",\"descriptor\":1}]}",
        "{\"files\":[{\"name\":\"a.ukdb\"}]}",
    };
    struct fixture *f = *state;
    for (unsigned i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        fake.answers[i] = (struct fake_answer){ .reply = replies[i], .files = { "x" } };
        assert_int_equal(RUN(&f->run, "kernel", "export", f->out), KILN_E_CORRUPT);
    }
    assert_int_equal(scratch_folder_count(&f->folder), 3); /* with the empty folder */
}

static void an_export_of_nothing_makes_no_folder(void **state)
{
    struct fixture *f = *state;
    fake.answers[0].code = KILN_E_NOT_FOUND;
    fake.answers[1].reply = "{\"files\":[]}";
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out), KILN_E_NOT_FOUND);
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "'kilnctl kernel import'");
    assert_false(scratch_has(&f->folder, "out"));
}

static void files_of_an_answer_that_cannot_be_read_are_closed(void **state)
{
    struct fixture *f = *state;
    int before = dup(0);
    close(before);
    fake.answers[0] = (struct fake_answer){ .reply = "[", .files = { "x", "y" } };
    assert_int_equal(RUN(&f->run, "kernel", "export", f->out), KILN_E_CORRUPT);
    int after = dup(0);
    close(after);
    assert_int_equal(after, before);
}

/* ---- fetch ---- */

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void a_kernel_is_fetched_by_name_and_arguments_to_the_blank(void **state)
{
    struct fixture *f = *state;
    int rc = RUN(&f->run, "kernel", "fetch", "--db-id", "gfx906_60", "--name", "conv3x3.s.o",
                 "--args", "  -Wa,-defsym  x", "-o", f->out);
    assert_int_equal(rc, KILN_E_OK);
    assert_string_equal(fake_kernels.asked, "gfx906_60|conv3x3.s.o|  -Wa,-defsym  x");
    assert_string_equal(scratch_read(&f->folder, "out", f->text, 256), "\x7f"
                                                                       "ELF");
    assert_says(f->run.printed, "/out: 4 B, from: package\n");
    assert_int_equal(fake_kernels.unrefs, 1);
}

static void a_kernel_may_have_no_arguments(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(RUN(&f->run, "kernel", "fetch", "--db-id", "gfx906_60", "--name", "n", "-o",
                         f->out, "--args", "", "--json"),
                     KILN_E_OK);
    assert_string_equal(fake_kernels.asked, "gfx906_60|n|");
    assert_says(f->run.printed, "/out\",\"key\":\"abcd\",\"size\":4,\"tier\":\"package\"}\n");
}

static void a_whole_key_is_fetched_without_being_looked_up(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(RUN(&f->run, "kernel", "fetch", KEY, "-o", f->out), KILN_E_OK);
    assert_string_equal(fake_kernels.asked, KEY);
    assert_int_equal(fake.asked, 0);
}

static void the_beginning_of_a_key_is_completed_first(void **state)
{
    struct fixture *f = *state;
    fake.answers[0].reply = "{\"key\":\"" KEY "\"}";
    assert_int_equal(RUN(&f->run, "kernel", "fetch", "0011", "-o", f->out), KILN_E_OK);
    assert_string_equal(fake.requests[0], "kernel_show {\"key\":\"0011\"}");
    assert_string_equal(fake_kernels.asked, KEY);
}

static void a_kernel_that_nobody_has_is_told_of_and_nothing_is_written(void **state)
{
    struct fixture *f = *state;
    fake_kernels.code = KILN_E_NOT_FOUND;
    assert_int_equal(RUN(&f->run, "kernel", "fetch", KEY, "-o", f->out), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "why-miss");
    assert_int_equal(
        RUN(&f->run, "kernel", "fetch", "--db-id", "gfx906_60", "--name", "n", "-o", f->out),
        KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "blanks in them count");
    assert_false(scratch_has(&f->folder, "out"));
}

static void a_fetch_needs_to_know_what_and_where_to(void **state)
{
    struct fixture *f = *state;
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

static void a_kernel_may_go_to_standard_output(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(RUN(&f->run, "kernel", "fetch", KEY, "-o", "-"), KILN_E_OK);
    assert_string_equal(f->run.printed, "\x7f"
                                        "ELF");
}

/* ---- pin ---- */

static void kernels_are_pinned_by_key(void **state)
{
    struct fixture *f = *state;
    fake.answers[0].reply = "{\"pinned\":true,\"kernels\":2}";
    assert_int_equal(RUN(&f->run, "kernel", "pin", "aa", "bb"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "kernel_pin {\"keys\":[\"aa\",\"bb\"],\"pin\":true}");
    assert_string_equal(f->run.printed, "2 kernels pinned\n");
}

static void kernels_are_unpinned_by_target(void **state)
{
    struct fixture *f = *state;
    fake.answers[0].reply = "{\"pinned\":false,\"kernels\":1200}";
    assert_int_equal(RUN(&f->run, "kernel", "unpin", "--target", "gfx90a"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "kernel_pin {\"target\":\"gfx90a\",\"pin\":false}");
    assert_string_equal(f->run.printed, "1 200 kernels no longer pinned\n");
}

static void kernels_are_pinned_by_name_and_device_and_told_as_json(void **state)
{
    struct fixture *f = *state;
    fake.answers[0].reply = "{\"pinned\":true,\"kernels\":3}";
    assert_int_equal(
        RUN(&f->run, "kernel", "pin", "--name", "n.o", "--db-id", "gfx90a68", "--json"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "kernel_pin {\"name\":\"n.o\",\"database_id\":"
                                          "\"gfx90a68\",\"pin\":true}");
    assert_string_equal(f->run.printed, "{\"pinned\":true,\"kernels\":3}\n");
}

static void pinning_needs_keys_or_a_choice_and_not_both(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(RUN(&f->run, "kernel", "pin"), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "kernel", "pin", "aa", "--target", "gfx90a"), KILN_E_INVALID);
    assert_int_equal(RUN(&f->run, "kernel", "pin", "aa", "nokey"), KILN_E_INVALID);
    assert_int_equal(fake.asked, 0);
}

static void many_keys_are_pinned_in_requests_that_kilnd_reads(void **state)
{
    struct fixture *f = *state;
    const char *argv[2 + 1001] = { "kernel", "pin" };
    for (size_t i = 2; i < 1003; i++)
        argv[i] = "aa";
    fake.answers[0].reply = fake.answers[1].reply = "{\"kernels\":500}";
    fake.answers[2] = (struct fake_answer){ .code = KILN_E_NOT_FOUND, .text = "no such key" };
    assert_int_equal(command_run(&f->run, 1003, argv), KILN_E_NOT_FOUND);
    assert_int_equal(fake.asked, 3);
    assert_string_equal(f->run.err.text, "after 1000 kernels: no such key");
    assert_string_equal(f->run.printed, "");
}

int main(int argc, char **argv)
{
    FAKE_TRANSFER_MAIN(argc, argv);
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_cache_goes_to_kilnd_as_an_open_file_with_its_name_and_source),
        T(an_import_for_everyone_of_another_device_says_so_to_kilnd),
        T(an_import_goes_on_after_a_bad_file_and_fails_in_the_end),
        T(what_was_lost_of_a_cache_is_told_and_fails),
        T(what_was_lost_as_json_counts_all_files_together),
        T(what_the_snapshot_lacks_is_a_loss_too),
        T(a_cache_that_cannot_be_opened_is_not_sent),
        T(a_cache_that_is_not_there_does_not_keep_the_others_out),
        T(an_import_that_is_not_permitted_ends_at_once),
        T(exported_caches_are_written_under_their_names),
        T(an_export_of_one_device_as_json_lists_its_file),
        T(an_export_keeps_files_that_are_there_and_writes_the_others),
        T(an_export_with_force_replaces_files),
        T(an_export_never_replaces_a_cache_that_is_in_use),
        T(an_export_writes_nowhere_but_into_its_folder),
        T(an_export_of_nothing_makes_no_folder),
        T(files_of_an_answer_that_cannot_be_read_are_closed),
        T(a_kernel_is_fetched_by_name_and_arguments_to_the_blank),
        T(a_kernel_may_have_no_arguments),
        T(a_whole_key_is_fetched_without_being_looked_up),
        T(the_beginning_of_a_key_is_completed_first),
        T(a_kernel_that_nobody_has_is_told_of_and_nothing_is_written),
        T(a_fetch_needs_to_know_what_and_where_to),
        T(a_kernel_may_go_to_standard_output),
        T(kernels_are_pinned_by_key),
        T(kernels_are_unpinned_by_target),
        T(kernels_are_pinned_by_name_and_device_and_told_as_json),
        T(pinning_needs_keys_or_a_choice_and_not_both),
        T(many_keys_are_pinned_in_requests_that_kilnd_reads),
    };
    return cmocka_run_group_tests_name("kilnctl.kernels", tests, NULL, NULL);
}
