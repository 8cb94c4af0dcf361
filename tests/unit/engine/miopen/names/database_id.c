/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/miopen/names/database_id.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *text, *device;
    unsigned compute_units;
} known[] = {
    { "gfx906_60", "gfx906", 60 },
    { "gfx906_64", "gfx906", 64 },
    { "gfx90641", "gfx906", 65 },
    { "gfx900_1", "gfx900", 1 },
    { "gfx90a68", "gfx90a", 104 },
    { "gfx90a6e", "gfx90a", 110 },
    { "gfx90878", "gfx908", 120 },
    { "gfx942130", "gfx942", 304 },
    { "gfx1030_36", "gfx1030", 36 },
    { "gfx90a", "gfx90a", 0 },
    { "gfx1100", "gfx1100", 0 },
    { "gfx906_xnack_60", "gfx906_xnack", 60 },
    { "gfx90a_xnack68", "gfx90a_xnack", 104 },
    { "sm_90_132", "sm_90", 132 },
    { "sm_86_46", "sm_86", 46 },
    { "sm_90a", "sm_90a", 0 },
    { "opencl_1a2b3c4d", "opencl_1a2b3c4d", 0 },
};

TEST(plain, database_ids_are_written_as_by_miopen)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct database_id id = { .compute_units = known[i].compute_units };
        snprintf(id.device, sizeof(id.device), "%s", known[i].device);
        char text[DATABASE_ID_MAX];
        assert_true(database_id_write(&id, text));
        assert_string_equal(text, known[i].text);
    }
}

TEST(plain, database_ids_of_miopen_are_read)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct database_id id;
        struct kiln_err err = KILN_ERR_INIT;
        must(database_id_parse(bytes_of_text(known[i].text), &id, &err), err);
        assert_string_equal(id.device, known[i].device);
        assert_int_equal(id.compute_units, known[i].compute_units);
    }
}

TEST(plain, database_ids_in_another_spelling_are_refused)
{
    static const char *const bad[] = {
        "",
        "gfx",
        "906_60",
        "gfx906_",
        "gfx906_0",
        "gfx906_065",
        "gfx906_65",
        "gfx906_060",
        "gfx90640",
        "gfx90a068",
        "gfx90aZZ",
        "gfx90A68",
        "gfx90a-104",
        "gfx90a 68",
        "gfx999_60",
        "gfx90a_+60",
        "gfx90a_6 0",
        "gfx90a_68x",
        "sm_9",
        "sm_90_",
        "sm_90_0",
        "sm_90_060",
        "sm_90_6x",
        "sm_90_60_1",
        "sm_90a_132", /* sm_90a is a target, not a device */
        "sm_9084",
        "sm__132",
        "SM_90",
        "SM_90_132",
        "opencl:x",
        "opencl_",
        "opencl_1a2b3c4",
        "opencl_1a2b3c4d5",
        "opencl_1A2B3C4D",
        "opencl_1a2b3c4g",
        "gfx906:60",
        "gfx906__60",
        "gfx90a_xnackx",
        "gfx90a00000000000000000000000000000000000000000000000068",
        "gfx90afffffff",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct database_id id;
        struct kiln_err err = KILN_ERR_INIT;
        if (database_id_parse(bytes_of_text(bad[i]), &id, &err) != KILN_INVALID)
            fail_msg("'%s' was taken for a database id", bad[i]);
        assert_says(err.text, "gfx906_60");
    }
}

TEST(plain, a_database_id_with_a_nul_is_refused)
{
    struct database_id id;
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(database_id_parse(bytes_of("gfx90a\0", 7), &id, &err), KILN_INVALID);
}

TEST(plain, nvidia_targets_are_ids_of_kpkg_files_only)
{
    static const char *const own[] = { "sm_90.kpkg", "sm_90a.kpkg" };
    static const char *const miopens[] = { "sm_90.kdb", "sm_90.ukdb", "sm_90.kdb.bz2", "sm_90" };
    struct database_id id;
    struct kiln_err err = KILN_ERR_INIT;
    char text[DATABASE_ID_MAX];
    for (size_t i = 0; i < 2; i++) {
        must(database_id_of_file(own[i], &id, &err), err);
        assert_false(database_id_is_miopens(&id));
        assert_true(database_id_write(&id, text));
        assert_int_equal(strncmp(text, own[i], strlen(text)), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        err = KILN_ERR_INIT;
        assert_int_equal(database_id_of_file(miopens[i], &id, &err), KILN_INVALID);
        assert_says(err.text, "kilnctl pkg");
    }
    must(database_id_of_file("gfx90a68.kdb", &id, &err), err);
    assert_true(database_id_is_miopens(&id));
}

TEST(plain, a_package_name_for_a_single_nvidia_device_is_refused)
{
    static const char *const bad[] = { "sm_90_132.kpkg", "sm_90_132.kdb", "opencl_1a2b3c4d.kpkg",
                                       "opencl_1a2b3c4d.kdb" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct database_id id;
        struct kiln_err err = KILN_ERR_INIT;
        assert_int_equal(database_id_of_file(bad[i], &id, &err), KILN_INVALID);
        assert_says(err.text, "sm_90.kpkg");
    }
}

TEST(plain, the_database_id_of_a_file_name_is_parsed)
{
    static const char *const names[] = { "gfx90a68.kdb", "gfx90a68.ukdb", "gfx90a68.kdb.bz2",
                                         "gfx90a68.kpkg", "gfx90a68" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct database_id id;
        struct kiln_err err = KILN_ERR_INIT;
        must(database_id_of_file(names[i], &id, &err), err);
        assert_string_equal(id.device, "gfx90a");
        assert_int_equal(id.compute_units, 104);
    }
}

TEST(plain, a_file_name_without_a_device_is_refused)
{
    struct database_id id;
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(database_id_of_file("kernels.kdb", &id, &err), KILN_INVALID);
    assert_says(err.text, "kernels.kdb");
    assert_says(err.text, "gfx90a68");
    assert_int_equal(database_id_of_file("gfx90a68/x.kdb", &id, &err), KILN_INVALID);
    assert_says(err.text, "path");
}

TEST(plain, a_version_is_split_from_a_database_id)
{
    struct bytes id, version;
    struct kiln_err err = KILN_ERR_INIT;
    must(database_id_split(bytes_of_text("gfx906_60@3.2.0-a_B"), &id, &version, &err), err);
    assert_true(bytes_equal_text(id, "gfx906_60"));
    assert_true(bytes_equal_text(version, "3.2.0-a_B"));
    must(database_id_split(bytes_of_text("gfx906_60"), &id, &version, &err), err);
    assert_true(bytes_equal_text(id, "gfx906_60"));
    assert_int_equal(version.size, 0);
    static const char *const wrong[] = { "gfx906@", "gfx906@3@2", "gfx906@../x",
                                         "gfx906@12345678901234567890123456789012345678901" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(database_id_split(bytes_of_text(wrong[i]), &id, &version, &err),
                         KILN_INVALID);
        assert_says(err.text, "'3.2.0'");
    }
    assert_int_equal(database_id_split(bytes_of("a@3\0", 4), &id, &version, &err), KILN_INVALID);
}

TEST(plain, a_database_id_too_long_for_the_buffer_is_an_error)
{
    struct database_id id = { .compute_units = 104 };
    memset(id.device, 'x', sizeof(id.device) - 1);
    char text[DATABASE_ID_MAX];
    assert_false(database_id_write(&id, text));
}
