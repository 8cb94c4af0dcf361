/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"

#include "common/base/fs.h"

#include <stdio.h>
#include <string.h>

static void add_gpu(struct users *f, unsigned node, const char *version, unsigned simds)
{
    char path[200], text[300];
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(path, sizeof(path), "%s/%u", f->engine.gpus, node);
    must(fs_make_directories(path, &err), err);
    snprintf(path, sizeof(path), "%s/%u/properties", f->engine.gpus, node);
    snprintf(text, sizeof(text),
             "cpu_cores_count 0\nsimd_count %u\nsimd_per_cu 4\ngfx_target_version %s\n"
             "vendor_id 4098\ndevice_id 29711\nunique_id 81985529216486895\n",
             simds, version);
    must(fs_replace_file(path, bytes_of_text(text), 0644, &err), err);
}

static size_t missing_reported(const struct users *f)
{
    size_t count = 0;
    for (size_t i = 0; i < f->engine.report_count; i++)
        count += strcmp(f->engine.reports[i].event, "package_missing") == 0;
    return count;
}

TEST_F(users, a_gpu_without_a_package_is_reported_once_a_boot)
{
    add_gpu(f, 1, "90010", 416);
    add_gpu(f, 2, "90010", 416);
    add_gpu(f, 3, "90006", 240);
    users_reopen(f);
    assert_int_equal(missing_reported(f), 2);
    assert_says(engine_fixture_reported(&f->engine, "package_missing"), "gfx906_60.kdb");

    users_reopen(f);
    assert_int_equal(missing_reported(f), 2);
}

TEST_F(users, a_gpu_with_a_fitting_package_is_not_reported)
{
    add_gpu(f, 1, "90010", 416);
    put_one(f, "gfx90a68.kdb", "conv.o", "the object");

    users_reopen(f);

    assert_int_equal(missing_reported(f), 0);
}

TEST_F(users, a_gpu_that_loses_its_package_is_reported_again)
{
    add_gpu(f, 1, "90010", 416);
    users_reopen(f);
    assert_int_equal(missing_reported(f), 1);

    add_gpu(f, 2, "90006", 240);
    users_reopen(f);

    assert_int_equal(missing_reported(f), 3);
}

TEST_F(users, an_unknown_gpu_is_named_and_the_others_are_shown)
{
    add_gpu(f, 1, "90010", 416);
    add_gpu(f, 2, "nonsense", 416);
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->ann, MESSAGE_package_coverage, NULL);
    assert_int_equal(json_count(json_get(answer, "gpus")), 1);
    assert_true(strlen(json_get_text(answer, "skipped", "")) > 0);
}

TEST_F(users, a_host_without_gpus_lists_none)
{
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->ann, MESSAGE_package_coverage, NULL);
    assert_int_equal(json_count(json_get(answer, "gpus")), 0);
    assert_string_equal(json_get_text(answer, "skipped", "?"), "");
}

TEST_F(users, coverage_shows_how_each_package_fits_each_gpu)
{
    add_gpu(f, 1, "90010", 416);
    put_one(f, "gfx90a6e.kdb", "conv.o", "for 110 compute units");
    KILN_AUTO(json)
    struct json *lacks = test_caller_ask(&f->ann, MESSAGE_package_coverage, NULL);
    const struct json *gpu = json_first(json_get(lacks, "gpus"));
    assert_string_equal(json_get_text(gpu, "database_id", ""), "gfx90a68");
    assert_string_equal(json_get_text(gpu, "coverage", ""), "other-cus");
    assert_says(json_get_text(gpu, "message", ""), "gfx90a68.kdb");

    put_one(f, "gfx90a68.kdb", "conv.o", "for 104 compute units");
    KILN_AUTO(json)
    struct json *has = test_caller_ask(&f->ann, MESSAGE_package_coverage, NULL);
    gpu = json_first(json_get(has, "gpus"));
    assert_string_equal(json_get_text(gpu, "coverage", ""), "exact");
    assert_string_equal(json_get_text(gpu, "message", "?"), "");
    assert_int_equal(json_count(json_get(gpu, "packages")), 2);
}
