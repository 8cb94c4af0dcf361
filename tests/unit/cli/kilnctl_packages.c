/* SPDX-License-Identifier: MIT */

#include "tests/support/test.h"
#include "tests/unit/cli/fake_transfer.h"
#include "tests/unit/cli/kilnctl_fake.h"
#include "tests/unit/cli/scratch_directory.h"
#include "tests/unit/cli/slow_clock.h"

struct fixture {
    struct command_run run;
    const char *directory;
    struct reported reported;
    char path[512];
};

SET_UP(set_up)
{
    f->directory = fake_begin();
    scratch_create(f->directory, "gfx90a68.kdb", "package", f->path);
}

FIXTURE(kilnctl_packages, set_up, NULL);

#define INSTALLED                                                                               \
    "{\"name\":\"gfx90a68.kdb\",\"database_id\":\"gfx90a68\",\"kernels\":978,\"size\":1572864," \
    "\"signer\":\"\"}"

TEST_F(kilnctl_packages, a_package_goes_to_kilnd_as_an_open_file_with_its_name_and_source)
{
    char expected[1024];
    fake.answers[0].reply = INSTALLED;

    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_OK);

    snprintf(expected, sizeof(expected),
             "package_install {\"name\":\"gfx90a68.kdb\",\"source\":\"%s\"}", f->path);
    assert_string_equal(fake.requests[0], expected);
    assert_int_equal(fake.file_counts[0], 1);
    assert_string_equal(fake.sent[0][0], "package");
    assert_int_equal(fake.timeouts[0], -1); /* no time limit */
    assert_says(f->run.printed, "gfx90a68.kdb");
    assert_says(f->run.printed, "978 kernels");
    assert_says(f->run.printed, "not signed");
}

#define FITS(name, fit)                                                       \
    "{\"gpus\":[{\"arch\":\"gfx1030\",\"packages\":[]},{\"arch\":\"gfx90a\"," \
    "\"packages\":[{\"name\":\"" name "\",\"fit\":\"" fit "\"}]}]}"

static void install_beside(struct fixture *f, const char *coverage)
{
    fake.asked = 0;
    fake.answers[0].reply = INSTALLED;
    fake.fits = coverage;
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_OK);
}

TEST_F(kilnctl_packages, a_package_that_fits_no_gpu_here_says_so)
{
    install_beside(f, FITS("gfx906_60.kdb", "exact"));
    assert_says(f->run.printed, "pkg coverage");
    install_beside(f, FITS("gfx90a68.kdb", "other-cus"));
    assert_says(f->run.printed, "pkg coverage");
    install_beside(f, FITS("gfx90a68.kdb", "exact"));
    assert_null(strstr(f->run.printed, "pkg coverage"));
    /* On a host without GPUs, users install packages for other hosts, so nothing is advised. */
    install_beside(f, "{\"gpus\":[]}");
    assert_null(strstr(f->run.printed, "pkg coverage"));
}

TEST_F(kilnctl_packages, the_json_of_an_install_is_kilnds_answer)
{
    fake.answers[0].reply = INSTALLED;
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path, "--json"), KILN_E_OK);
    assert_string_equal(f->run.printed, INSTALLED "\n");
}

static void install_with_records(struct fixture *f)
{
    fake.asked = 0;
    fake.answers[0].reply = "{\"name\":\"gfx90a68.kpkg\",\"format\":\"kiln\",\"signer\":\"ops\"}";
    fake.answers[1] = (struct fake_answer){ .reply = "{\"records\":[\"gfx90a68.HIP.fdb.txt\"]}",
                                            .files = { "key=ConvDirectNaive:1,0,Direct\n" } };
    fake.answers[2].reply = "{\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"backend\":\"HIP\","
                            "\"tier\":\"host\",\"records\":1,\"entries\":1,\"added\":1}";
    scratch_create(f->directory, "gfx90a68.kpkg", "package", f->path);
}

TEST_F(kilnctl_packages, tuning_records_of_a_package_become_records_of_the_host)
{
    install_with_records(f);
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_OK);
    assert_string_equal(fake.requests[1],
                        "package_show {\"name\":\"gfx90a68.kpkg\",\"count\":0,\"records\":true}");
    assert_string_equal(fake.requests[2],
                        "tuning_merge {\"name\":\"gfx90a68.HIP.fdb.txt\",\"tier\":\"host\"}");
    assert_string_equal(fake.sent[2][0], "key=ConvDirectNaive:1,0,Direct\n");
    assert_says(f->run.printed, "gfx90a68.HIP.fdb.txt: 1 record");

    install_with_records(f);
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path, "--json"), KILN_E_OK);
    assert_says(f->run.printed, "\"records\":[{\"kind\":\"find\"");
}

TEST_F(kilnctl_packages, records_that_are_refused_fail_the_command_and_name_the_package)
{
    install_with_records(f);
    fake.answers[2] = (struct fake_answer){ .code = KILN_E_DENIED };
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_DENIED);
    assert_says(f->run.err.text, "'gfx90a68.kpkg' is installed");
}

/* Answers as a kilnd that does not know the member "records".  |first| is the name of the package's
 * first row. */
static void install_with_older_kilnd(struct fixture *f, const char *first, char page[128])
{
    snprintf(page, 128, "{\"rows\":[{\"id\":1,\"name\":\"%s\"}]}", first);
    install_with_records(f);
    fake.answers[1] = (struct fake_answer){
        .code = KILN_E_INVALID,
        .text = "body of 'package_show': the request has an unknown member 'records'",
    };
    fake.answers[2] = (struct fake_answer){ .reply = page };
}

TEST_F(kilnctl_packages, an_older_kilnd_installs_a_package_without_records)
{
    char page[128];
    install_with_older_kilnd(f, "conv_direct", page);
    must(RUN(&f->run, "pkg", "install", f->path), f->run.err);
    assert_string_equal(fake.requests[2], "package_show {\"name\":\"gfx90a68.kpkg\",\"count\":1}");
}

TEST_F(kilnctl_packages, records_that_an_older_kilnd_cannot_read_fail_the_command)
{
    char page[128];
    install_with_older_kilnd(f, "!records/gfx90a68.HIP.fdb.txt", page);
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_UNSUPPORTED);
    assert_says(f->run.err.text, "'gfx90a68.kpkg' is installed");
    assert_says(f->run.err.text, "older");
}

TEST_F(kilnctl_packages, a_request_that_an_older_kilnd_does_not_know_says_so)
{
    static const char *const texts[] = { "unknown request type 99",
                                         "the request has an unknown member 'x'" };
    for (size_t i = 0; i < 2; i++) {
        fake.asked = 0;
        fake.answers[0] = (struct fake_answer){ .code = KILN_E_INVALID, .text = texts[i] };
        assert_int_equal(RUN(&f->run, "pkg", "ls"), KILN_E_INVALID);
        assert_says(f->run.err.text, "older");
        assert_says(f->run.err.text, texts[i]);
    }
}

TEST_F(kilnctl_packages, a_package_may_be_given_another_name)
{
    fake.answers[0].reply =
        "{\"name\":\"gfx90a.kdb\",\"database_id\":\"gfx90a\",\"signer\":\"ops\"}";
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path, "--name", "gfx90a.kdb"), KILN_E_OK);
    assert_says(fake.requests[0], "{\"name\":\"gfx90a.kdb\",");
    assert_says(f->run.printed, "'ops'");
}

TEST_F(kilnctl_packages, a_manifest_next_to_a_package_is_sent_with_it)
{
    fake.answers[0].reply = INSTALLED;
    scratch_write(f->directory, "gfx90a68.kdb.manifest", "manifest");
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_OK);
    assert_int_equal(fake.file_counts[0], 2);
    assert_string_equal(fake.sent[0][1], "manifest");
}

TEST_F(kilnctl_packages, the_manifest_of_the_option_is_sent)
{
    char path[512];
    fake.answers[0].reply = INSTALLED;
    scratch_write(f->directory, "gfx90a68.kdb.manifest", "beside");
    scratch_write(f->directory, "other", "given");
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path, "--manifest",
                         scratch_path(f->directory, "other", path)),
                     KILN_E_OK);
    assert_string_equal(fake.sent[0][1], "given");
}

TEST_F(kilnctl_packages, a_missing_manifest_is_named_before_a_request)
{
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path, "--manifest", "/nonexistent/m"),
                     KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "'/nonexistent/m'");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_packages, a_missing_or_irregular_package_file_is_named)
{
    assert_int_equal(RUN(&f->run, "pkg", "install", "/nonexistent/x.kdb"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "'/nonexistent/x.kdb'");
    assert_int_equal(RUN(&f->run, "pkg", "install", f->directory), KILN_E_INVALID);
    assert_says(f->run.err.text, "regular file");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_packages, a_url_is_sent_unchanged_and_without_a_file)
{
    fake.answers[0].reply = fake.answers[1].reply = INSTALLED;
    assert_int_equal(RUN(&f->run, "pkg", "install", "https://h/p/gfx90a68.kdb.bz2"), KILN_E_OK);
    assert_int_equal(RUN(&f->run, "pkg", "install", "file:///p/a.kdb", "--name", "b.kdb"),
                     KILN_E_OK);
    assert_string_equal(fake.requests[0],
                        "package_install {\"url\":\"https://h/p/gfx90a68.kdb.bz2\"}");
    assert_string_equal(fake.requests[1],
                        "package_install {\"url\":\"file:///p/a.kdb\",\"name\":\"b.kdb\"}");
    assert_int_equal(fake.file_counts[0], 0);
}

TEST_F(kilnctl_packages, replacing_a_signed_package_needs_its_option)
{
    fake.answers[0].reply = fake.answers[1].reply = INSTALLED;
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_OK);
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path, "--replace-signed"), KILN_E_OK);
    assert_null(strstr(fake.requests[0], "replace_signed"));
    assert_says(fake.requests[1], ",\"replace_signed\":true}");
    fake.asked = 0;
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path, "--allow-downgrade"), KILN_E_OK);
    assert_says(fake.requests[0], ",\"allow_downgrade\":true}");
}

TEST_F(kilnctl_packages, a_signature_of_only_the_packed_file_is_reported)
{
    fake.answers[0].reply = "{\"name\":\"gfx90a68.kdb\",\"only_packed_signed\":true}";
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_OK);
    assert_says(f->run.printed, "not signed");
    assert_says(f->run.printed, "kilnctl pkg sign");
}

TEST_F(kilnctl_packages, a_manifest_option_with_a_url_is_refused)
{
    assert_int_equal(RUN(&f->run, "pkg", "install", "https://h/a.kdb", "--manifest", f->path),
                     KILN_E_INVALID);
    assert_says(f->run.err.text, "URL.manifest");
    assert_int_equal(fake.asked, 0);
}

#define SUM "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"

TEST_F(kilnctl_packages, a_sha256_option_is_checked_and_sent_in_lower_case)
{
    fake.answers[0].reply = INSTALLED;
    assert_int_equal(RUN(&f->run, "pkg", "install", "https://h/a.kdb", "--sha256", SUM), KILN_E_OK);
    assert_says(fake.requests[0], "\"sha256\":\"0123456789abcdef0123456789abcdef"
                                  "0123456789abcdef0123456789abcdef\"");
    assert_int_equal(RUN(&f->run, "pkg", "install", "https://h/a.kdb", "--sha256", "abc"),
                     KILN_E_INVALID);
    assert_says(f->run.err.text, "'abc'");
    assert_says(f->run.err.text, "--sha256");
    assert_int_equal(fake.asked, 1);
}

TEST_F(kilnctl_packages, a_package_with_a_log_is_refused_without_kiln_transfer)
{
    scratch_write(f->directory, "gfx90a68.kdb-wal", "log");
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_UNSUPPORTED);
    assert_says(f->run.err.text, "kiln-transfer");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_packages, a_users_cache_is_installed_by_way_of_a_snapshot)
{
    char path[512];
    test_setenv(FAKE_TRANSFER, "merge");
    fake.answers[0].reply = INSTALLED;
    scratch_write(f->directory, "gfx90a68.ukdb", "cache");
    assert_int_equal(
        RUN(&f->run, "pkg", "install", scratch_path(f->directory, "gfx90a68.ukdb", path)),
        KILN_E_OK);
    assert_string_equal(fake.sent[0][0], "cache");
}

TEST_F(kilnctl_packages, a_package_that_is_not_in_use_needs_no_snapshot)
{
    test_setenv(FAKE_TRANSFER, "refuse");
    fake.answers[0].reply = INSTALLED;
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_OK);
}

TEST_F(kilnctl_packages, a_package_with_a_log_is_refused_with_a_digest_or_a_manifest)
{
    scratch_write(f->directory, "gfx90a68.kdb-wal", "log");
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path, "--sha256", SUM), KILN_E_INVALID);
    assert_says(f->run.err.text, "in use");
    scratch_write(f->directory, "gfx90a68.kdb.manifest", "manifest");
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_INVALID);
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_packages, a_package_that_kilnd_refuses_fails_with_its_message)
{
    fake.answers[0] = (struct fake_answer){ .code = KILN_E_DENIED, .text = "it is not signed" };
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_DENIED);
    assert_says(f->run.err.text, "signed");
    assert_string_equal(f->run.printed, "");
}

/* kilnctl adds the path to the message, because kilnd gets only an open file. */
TEST_F(kilnctl_packages, a_failed_install_names_the_file_and_no_credentials)
{
    const struct fake_answer refused = { .code = KILN_E_CORRUPT, .text = "another SHA-256" };
    fake.answers[0] = fake.answers[1] = refused;
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path), KILN_E_CORRUPT);
    assert_says(f->run.err.text, f->path);
    assert_int_equal(RUN(&f->run, "pkg", "install", "http://me:secret@h/p/gfx90a68.kdb?sig=abc"),
                     KILN_E_CORRUPT);
    assert_says(f->run.err.text, "gfx90a68.kdb");
    assert_null(strstr(f->run.err.text, "secret"));
    assert_null(strstr(f->run.err.text, "abc"));
}

TEST_F(kilnctl_packages, an_install_reports_progress_and_the_reason_of_a_retry)
{
    fake.answers[0] = (struct fake_answer){
        .reply = INSTALLED,
        .progress = { "{\"progress\":{\"stage\":\"fetching\",\"done\":1048576,\"total\":2097152,"
                      "\"attempt\":1,\"note\":\"\"}}",
                      "{\"progress\":{\"stage\":\"fetching\",\"done\":1048576,\"total\":2097152,"
                      "\"attempt\":2,\"note\":\"the server \\u001b[1mhung up\"}}",
                      "{\"progress\":{\"stage\":\"checking\",\"done\":978,\"total\":978}}" },
    };
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "pkg", "install", "http://h/gfx90a68.kdb");
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_OK);
    assert_says(f->reported.text, "fetching: 1.0");
    assert_says(f->reported.text, "?[1mhung");
    assert_says(f->reported.text, "attempt 2");
    assert_says(f->reported.text, "fetching: 2.0");
    assert_says(f->reported.text, "checking: 978");
    assert_null(strstr(f->reported.text, "failed"));
}

#define CHECKED_HALF                                                          \
    {                                                                         \
        "{\"progress\":{\"stage\":\"checking\",\"done\":500,\"total\":1000}}" \
    }

TEST_F(kilnctl_packages, the_last_stage_is_reported_as_done_only_if_the_install_succeeded)
{
    fake.answers[0] = (struct fake_answer){ .reply = INSTALLED, .progress = CHECKED_HALF };
    fake.answers[1] = (struct fake_answer){ .code = KILN_E_CORRUPT, .progress = CHECKED_HALF };
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "pkg", "install", f->path);
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_OK);
    assert_says(f->reported.text, "checking: 1000");
    reported_begin(&f->reported);
    rc = RUN(&f->run, "pkg", "install", f->path);
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_CORRUPT);
    assert_says(f->reported.text, "checking: 500");
    assert_null(strstr(f->reported.text, "checking: 1000"));
}

TEST_F(kilnctl_packages, nothing_of_a_urls_credentials_or_query_is_shown)
{
    fake.answers[0] = (struct fake_answer){ .reply = INSTALLED, .progress = CHECKED_HALF };
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "pkg", "install", "http://me:secret@h/p/gfx90a68.kdb?sig=abc/def#frag");
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_OK);
    assert_says(fake.requests[0], "me:secret@h/p/gfx90a68.kdb?sig=abc/def#frag");
    assert_int_equal(strncmp(f->reported.text, "gfx90a68.kdb: checking", 22), 0);
    assert_null(strstr(f->reported.text, "secret"));
    assert_null(strstr(f->reported.text, "abc"));
    assert_null(strstr(f->reported.text, "def"));
}

TEST_F(kilnctl_packages, a_url_without_a_path_shows_no_credentials)
{
    fake.answers[0] = (struct fake_answer){ .reply = INSTALLED, .progress = CHECKED_HALF };
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "pkg", "install", "http://me:se/cret@h");
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_OK);
    assert_null(strstr(f->reported.text, "cret@"));
}

TEST_F(kilnctl_packages, invalid_progress_is_ignored)
{
    fake.answers[0] = (struct fake_answer){
        .reply = INSTALLED,
        .progress = { "{", "{\"progress\":7}", "{\"progress\":{\"stage\":\"unpacking\"}}" },
    };
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "pkg", "install", "http://h/gfx90a68.kdb");
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_OK);
    assert_string_equal(f->reported.text, "");
}

TEST_F(kilnctl_packages, the_timeout_option_bounds_an_install)
{
    fake.answers[0].reply = INSTALLED;
    assert_int_equal(RUN(&f->run, "pkg", "install", f->path, "--timeout", "5m"), KILN_E_OK);
    assert_int_equal(fake.timeouts[0], 300000);
}

TEST_F(kilnctl_packages, packages_are_listed_with_their_devices)
{
    fake.answers[0].reply =
        "{\"packages\":[{\"name\":\"gfx90a68.kdb\",\"path\":\"/p/gfx90a68.kdb\",\"format\":\"kdb\","
        "\"database_id\":\"gfx90a68\",\"kernels\":978,\"size\":1048576,\"signer\":\"ops\","
        "\"installed\":0}]}";
    assert_int_equal(RUN(&f->run, "pkg", "ls"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "package_list -");
    assert_says(f->run.printed, "SIGNED BY");
    assert_says(f->run.printed, "978");
    assert_says(f->run.printed, "1.0 MiB");
    assert_says(f->run.printed, "ops");
}

TEST_F(kilnctl_packages, signatures_that_do_not_count_are_explained)
{
    fake.answers[0].reply =
        "{\"packages\":[{\"name\":\"a.kdb\",\"path\":\"/p/a.kdb\",\"signer\":\"ops\","
        "\"signature_counts\":false,\"installed\":0},"
        "{\"name\":\"b.kdb\",\"signer\":\"\",\"signature_refused\":\"no trusted key\"},"
        "{\"name\":\"c.kdb\",\"signer\":\"ops\",\"signature_counts\":true}]}";
    assert_int_equal(RUN(&f->run, "pkg", "ls"), KILN_E_OK);
    assert_says(f->run.printed, "signature of 'a.kdb'");
    assert_says(f->run.printed, "'kilnctl pkg install /p/a.kdb'");
    assert_says(f->run.printed, "manifest of 'b.kdb'");
    assert_says(f->run.printed, "no trusted key");
    assert_null(strstr(f->run.printed, "'c.kdb'"));
}

#define REFUSED                                                                                 \
    "\"refused\":[{\"name\":\"gfx906_60.kdb.bz2\",\"directory\":\"/opt/db\",\"why\":\"packed: " \
    "\\u001b[2Jinstall it\"}]}"

TEST_F(kilnctl_packages, packages_that_are_not_used_are_listed_with_the_reason)
{
    fake.answers[0].reply = "{\"packages\":[{\"name\":\"gfx90a68.kdb\"}]," REFUSED;
    fake.answers[1].reply = fake.answers[2].reply = "{\"packages\":[]," REFUSED;
    assert_int_equal(RUN(&f->run, "pkg", "ls"), KILN_E_OK);
    assert_says(f->run.printed, "gfx90a68.kdb");
    assert_says(f->run.printed, "'gfx906_60.kdb.bz2' in '/opt/db': packed: ?[2Jinstall it\n");
    assert_int_equal(RUN(&f->run, "pkg", "ls"), KILN_E_OK);
    assert_says(f->run.printed, "not used:");
    assert_says(f->run.printed, "'gfx906");
    assert_null(strstr(f->run.printed, "pkg install"));
    assert_int_equal(RUN(&f->run, "pkg", "ls", "--json"), KILN_E_OK);
    assert_says(f->run.printed, "\"directory\":\"/opt/db\",\"why\":");
}

TEST_F(kilnctl_packages, a_list_of_no_packages_says_what_to_do)
{
    fake.answers[0].reply = fake.answers[1].reply = "{\"packages\":[]}";
    assert_int_equal(RUN(&f->run, "pkg", "ls"), KILN_E_OK);
    assert_says(f->run.printed, "pkg install");
    assert_int_equal(RUN(&f->run, "pkg", "ls", "--json"), KILN_E_OK);
    assert_string_equal(f->run.printed, "{\"packages\":[]}\n");
}

TEST_F(kilnctl_packages, a_package_is_shown_without_its_kernels_unless_asked)
{
    fake.answers[0].reply = "{\"name\":\"a.kdb\",\"size\":2048,\"kernels\":978}";
    assert_int_equal(RUN(&f->run, "pkg", "show", "a.kdb"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "package_show {\"name\":\"a.kdb\",\"count\":0}");
    assert_string_equal(f->run.printed, "name     a.kdb\nsize     2.0 KiB\nkernels  978\n");
}

TEST_F(kilnctl_packages, a_package_is_shown_with_its_version_and_the_day_of_its_signature)
{
    fake.answers[0].reply = "{\"name\":\"a.kdb\",\"version\":12,\"signed\":1764288000}";
    assert_int_equal(RUN(&f->run, "pkg", "show", "a.kdb"), KILN_E_OK);
    assert_says(f->run.printed, "version  12\n");
    /* 27 or 28 November, depending on the time zone */
    assert_says(f->run.printed, "signed   2025-11-2");
}

static void script_rows_of_two_pages(void)
{
    fake.answers[0].reply = "{\"name\":\"a.kdb\"}";
    fake.answers[1].reply = "{\"name\":\"a.kdb\",\"next\":2,\"rows\":["
                            "{\"id\":1,\"name\":\"n1\",\"args\":\"  -a  -b\",\"size\":2048},"
                            "{\"id\":2,\"name\":\"n2\",\"args\":\"\"}]}";
    fake.answers[2].reply = "{\"name\":\"a.kdb\",\"rows\":[{\"id\":5,\"name\":\"n5\"}]}";
}

TEST_F(kilnctl_packages, rows_of_a_package_are_listed_over_all_pages_with_their_blanks)
{
    script_rows_of_two_pages();
    assert_int_equal(RUN(&f->run, "pkg", "show", "a.kdb", "--rows"), KILN_E_OK);
    assert_string_equal(fake.requests[1], "package_show {\"name\":\"a.kdb\"}");
    assert_string_equal(fake.requests[2], "package_show {\"name\":\"a.kdb\",\"after\":2}");
    assert_says(f->run.printed, "ROW");
    assert_says(f->run.printed, "  1  2.0 KiB     0 B  n1    '  -a  -b'\n");
    assert_says(f->run.printed, "n5    ''\n");
}

TEST_F(kilnctl_packages, rows_of_a_package_as_json_are_one_object)
{
    script_rows_of_two_pages();
    assert_int_equal(RUN(&f->run, "pkg", "show", "a.kdb", "--rows", "--json"), KILN_E_OK);
    assert_string_equal(f->run.printed,
                        "{\"name\":\"a.kdb\",\"rows\":["
                        "{\"id\":1,\"name\":\"n1\",\"args\":\"  -a  -b\",\"size\":2048},"
                        "{\"id\":2,\"name\":\"n2\",\"args\":\"\"},{\"id\":5,\"name\":\"n5\"}]}\n");
}

TEST_F(kilnctl_packages, rows_without_end_are_an_error_and_print_nothing)
{
    fake.answers[0].reply = "{\"name\":\"a.kdb\"}";
    fake.answers[1].reply = fake.answers[2].reply = "{\"next\":2,\"rows\":[{\"id\":2}]}";
    assert_int_equal(RUN(&f->run, "pkg", "show", "a.kdb", "--rows", "--json"), KILN_E_CORRUPT);
    assert_string_equal(f->run.printed, "");
}

TEST_F(kilnctl_packages, an_interrupted_list_of_rows_prints_nothing)
{
    fake.answers[0].reply = "{\"name\":\"a.kdb\"}";
    fake.answers[1].reply = "{\"next\":2,\"rows\":[{\"id\":2}]}";
    fake.answers[2].code = KILN_E_TIMED_OUT;
    assert_int_equal(RUN(&f->run, "pkg", "show", "a.kdb", "--rows"), KILN_E_TIMED_OUT);
    assert_string_equal(f->run.printed, "");
}

TEST_F(kilnctl_packages, an_undamaged_package_verifies)
{
    fake.answers[0].reply = "{\"name\":\"a.kdb\",\"kernels\":1200,\"good\":1200,\"damaged\":0,"
                            "\"first\":\"\"}";
    assert_int_equal(RUN(&f->run, "pkg", "verify", "a.kdb"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "package_verify {\"name\":\"a.kdb\"}");
    assert_int_equal(fake.timeouts[0], -1);
    assert_says(f->run.printed, "a.kdb:");
    assert_says(f->run.printed, "1 200");
}

TEST_F(kilnctl_packages, verify_continues_after_damage_and_fails_at_the_end)
{
    fake.answers[0].reply = "{\"name\":\"a.kdb\",\"kernels\":9,\"good\":7,\"damaged\":2,"
                            "\"first\":\"row 3: its md5 is another\"}";
    fake.answers[1].reply = "{\"name\":\"b.kdb\",\"kernels\":1,\"good\":1,\"damaged\":0}";
    assert_int_equal(RUN(&f->run, "pkg", "verify", "a.kdb", "b.kdb"), KILN_E_CORRUPT);
    assert_says(f->run.err.text, "2 of");
    assert_says(f->run.err.text, "'a.kdb'");
    assert_says(f->run.err.text, "row 3:");
    assert_says(f->run.printed, "b.kdb:");
    assert_says(f->run.printed, "1 kernel");
}

TEST_F(kilnctl_packages, verifying_as_json_has_every_report_and_the_error)
{
    fake.answers[0].reply = "{\"name\":\"a.kdb\",\"kernels\":9,\"damaged\":2}";
    fake.answers[1].code = KILN_E_NOT_FOUND;
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "pkg", "verify", "a.kdb", "c.kdb", "--json");
    reported_end(&f->reported);
    assert_int_equal(rc, KILN_E_CORRUPT);
    assert_says(f->run.printed,
                "{\"packages\":[{\"name\":\"a.kdb\",\"kernels\":9,\"damaged\":2}],\"failures\":[");
    assert_says(f->run.printed, "\"package\":\"c.kdb\"}]");
    assert_says(f->run.printed, "\"error\":{\"code\":\"CORRUPT\"");
    assert_true(f->run.reported);
    /* The command prints only the second failure, because main prints the first one. */
    assert_says(f->reported.text, "fake says no\n");
}

TEST_F(kilnctl_packages, packages_are_removed_and_missing_ones_are_named)
{
    fake.answers[0] =
        (struct fake_answer){ .code = KILN_E_NOT_FOUND, .text = "no package 'a.kdb' is installed" };
    fake.answers[1].reply = "{\"name\":\"b.kdb\"}";
    assert_int_equal(RUN(&f->run, "pkg", "rm", "a.kdb", "b.kdb"), KILN_E_NOT_FOUND);
    assert_string_equal(fake.requests[1], "package_remove {\"name\":\"b.kdb\"}");
    assert_says(f->run.err.text, "'a.kdb'");
    assert_string_equal(f->run.printed, "removed 'b.kdb'\n");
}

TEST_F(kilnctl_packages, removing_packages_as_json_lists_both)
{
    fake.answers[0].code = KILN_E_NOT_FOUND;
    fake.answers[1].reply = "{\"name\":\"b.kdb\"}";
    assert_int_equal(RUN(&f->run, "pkg", "rm", "a.kdb", "b.kdb", "--json"), KILN_E_NOT_FOUND);
    assert_says(f->run.printed, "{\"removed\":[\"b.kdb\"],\"failures\":[{\"code\":\"NOT_FOUND\"");
    assert_true(f->run.reported);
}

TEST_F(kilnctl_packages, removing_packages_stops_where_it_is_not_permitted)
{
    fake.answers[0].code = KILN_E_DENIED;
    assert_int_equal(RUN(&f->run, "pkg", "rm", "a.kdb", "b.kdb", "--json"), KILN_E_DENIED);
    assert_int_equal(fake.asked, 1);
    assert_string_equal(f->run.printed, "");
    assert_false(f->run.reported);
}

#define GPU(node, coverage, packages, message)                                              \
    "{\"node\":" node ",\"arch\":\"gfx90a\",\"compute_units\":104,\"uuid\":\"u" node        \
    "\",\"database_id\":\"gfx90a68\",\"coverage\":\"" coverage "\",\"packages\":[" packages \
    "],\"message\":\"" message "\"}"
#define PACKAGE(name, fit) "{\"name\":\"" name "\",\"fit\":\"" fit "\"}"

TEST_F(kilnctl_packages, coverage_lists_each_gpu_and_says_once_what_to_do)
{
    fake.answers[0].reply = "{\"gpus\":[" GPU("1", "none", "", "install one") "," GPU(
        "2", "other-cus", PACKAGE("gfx90a6e.kdb", "other-cus"),
        "install one") "],\"skipped\":\"\"}";
    assert_int_equal(RUN(&f->run, "pkg", "coverage"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "package_coverage -");
    assert_string_equal(f->run.printed, "NODE  ARCH    UNITS  ID        COVERAGE   PACKAGES\n"
                                        "   1  gfx90a    104  gfx90a68  none       -\n"
                                        "   2  gfx90a    104  gfx90a68  other-cus  -\n"
                                        "\ninstall one\n");
}

TEST_F(kilnctl_packages, coverage_names_the_packages_that_apply_to_a_gpu)
{
    fake.answers[0].reply =
        "{\"gpus\":[" GPU("3", "exact",
                          PACKAGE("gfx90a68.kdb", "exact") "," PACKAGE(
                              "gfx90a.kdb", "arch") "," PACKAGE("gfx90a6e.kdb", "other-cus"),
                          "") "]}";
    assert_int_equal(RUN(&f->run, "pkg", "coverage"), KILN_E_OK);
    assert_says(f->run.printed, "exact");
    assert_says(f->run.printed, "gfx90a68.kdb, gfx90a.kdb");
}

TEST_F(kilnctl_packages, a_host_without_gpus_is_covered_by_a_message)
{
    fake.answers[0].reply = "{\"gpus\":[],\"skipped\":\"node 3 has no simd_count\"}";
    assert_int_equal(RUN(&f->run, "pkg", "coverage"), KILN_E_OK);
    assert_says(f->run.printed, "no AMD");
    assert_says(f->run.printed, "node 3");
}

int main(int argc, char **argv)
{
    FAKE_TRANSFER_MAIN(argc, argv);
    return test_main(argc, argv);
}
