/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_files.h"

#include "common/base/fs.h"
#include "engine/miopen/names/miopen_files.h"
#include "engine/miopen/names/tuning_file_name.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define PAGE_MAX (1u << 20)

/* Writes an example of a file name of the kind |file|. It has an unusual device, and a release of
 * MIOpen that uses this kind. */
static void example(const struct miopen_file *file, char text[128])
{
    const char *version = strstr(file->name, "SCHEMA")                 ? "1.1.0"
                          : file->until && file->until != MIOPEN_NEVER ? "2_20_0_f185a6464"
                                                                       : "3_5_2_";
    const struct miopen_words words = { bytes_of_text("gfx906_xnack_60"), bytes_of_text("HIP"),
                                        bytes_of_text(version) };
    miopen_file_write(file, &words, text);
}

static bool is_tuning(const struct miopen_file *file) { return file->content < MIOPEN_KERNELS; }

TEST(plain, every_name_is_found_in_its_own_row)
{
    for (size_t i = 0; i < miopen_file_count; i++) {
        char name[128];
        example(&miopen_files[i], name);
        if (miopen_file_find(miopen_files[i].place, name) != &miopen_files[i])
            fail_msg("'%s' is not found as '%s'", name, miopen_files[i].name);
    }
}

/* MIOpen opens a file only if it has exactly the name that MIOpen computes. */
TEST(plain, every_name_of_a_tuning_file_is_parsed_and_written)
{
    for (size_t i = 0; i < miopen_file_count; i++) {
        const struct miopen_file *file = &miopen_files[i];
        struct tuning_file_name parsed;
        struct kiln_err err = KILN_ERR_INIT;
        char name[128], written[128];
        example(file, name);
        if (!is_tuning(file))
            continue;
        must(tuning_file_name_parse(name, &parsed, &err), err);
        assert_string_equal(parsed.database_id, "gfx906_xnack_60");
        assert_int_equal(parsed.is_user, file->place == MIOPEN_USER);
        assert_int_equal(parsed.kind, file->content == MIOPEN_FIND ? TUNING_FIND : TUNING_PERF);
        tuning_file_name_write(&parsed, written);
        if (strcmp(file->name, "ID.cd.pdb.txt") == 0)
            assert_string_equal(written, "gfx906_xnack_60.db.txt");
        else if (strcmp(file->name, "ID.cd.updb.txt") == 0)
            assert_string_equal(written, "gfx906_xnack_60.udb.txt");
        else
            assert_string_equal(written, name);
    }
}

TEST(plain, a_text_perf_db_gets_the_name_of_its_release)
{
    static const struct {
        const char *version, *name;
    } cases[] = {
        { "2_17_0_a82233c22", "gfx90a68.HIP.2_17_0_a82233c22.cd.updb.txt" },
        { "3_1_0_261a49738", "gfx90a68.HIP.3_1_0_261a49738.cd.updb.txt" },
        { "3_2_0_36bb7fd4a", "gfx90a68.HIP.3_2_0_36bb7fd4a.udb.txt" },
        { "3_5_2_", "gfx90a68.HIP.3_5_2_.udb.txt" },
        { "4_0_0_0", "gfx90a68.HIP.4_0_0_0.udb.txt" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tuning_file_name name = {
            .kind = TUNING_PERF, .format = TUNING_TEXT, .database_id = "gfx90a68", .is_user = true
        };
        char text[128];
        snprintf(name.version, sizeof(name.version), "%s", cases[i].version);
        tuning_file_name_write(&name, text);
        assert_string_equal(text, cases[i].name);
    }
}

TEST(plain, a_version_is_written_as_miopen_does)
{
    static const struct {
        const char *version, *dots, *underscores;
        unsigned release;
    } cases[] = {
        { "2.17.0.a82233c22", "2.17.0.a82233c22", "2_17_0_a82233c22", 2017 },
        { "3.5.1.1a2b3c-dirty", "3.5.1.1a2b3c-dirty", "3_5_1_1a2b3c_dirty", 3005 },
        { "3.5.2", "3.5.2.", "3_5_2_", 3005 },
        { "3.5.2.", "3.5.2.", "3_5_2_", 3005 },
        { "3_2_0_36bb7fd4a", "3_2_0_36bb7fd4a", "3_2_0_36bb7fd4a", 3002 },
        { "new", "new", "new", 0 },
        { "3", "3", "3", 0 },
        { "", "", "", 0 },
        { "12345.1.1", "12345.1.1", "12345_1_1", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[MIOPEN_VERSION_TEXT];
        miopen_version_write(cases[i].version, '.', text);
        assert_string_equal(text, cases[i].dots);
        miopen_version_write(cases[i].version, '_', text);
        assert_string_equal(text, cases[i].underscores);
        assert_int_equal(miopen_release(cases[i].version), cases[i].release);
    }
}

TEST(plain, a_name_of_another_form_is_unknown_and_likely_if_it_resembles_one)
{
    static const char *const likely[] = { "gfx90a68.HIP.3_9_0_1.newer.ufdb.txt",
                                          "gfx90a68.HIP.3_9_0_1.layernorm.udb.txt", "gfx90a68.xudb",
                                          "conv.s.o" };
    static const char *const others[] = { "notes.txt", "core.1234", "slurm-77.out" };
    for (size_t i = 0; i < sizeof(likely) / sizeof(likely[0]); i++) {
        assert_null(miopen_file_find(MIOPEN_USER, likely[i]));
        assert_true(miopen_file_is_likely(likely[i]));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_null(miopen_file_find(MIOPEN_USER, others[i]));
        assert_false(miopen_file_is_likely(others[i]));
    }
}

static void release_text(unsigned release, char text[16])
{
    snprintf(text, 16, "%u.%u", release / 1000, release % 1000);
}

/* Writes the row of |file| in the manual page that lists the files, such as "| `ID.udb` | user |
 * all |". */
static void expected_row(const struct miopen_file *file, char text[256])
{
    static const char *const places[] = { "system", "user", "cache" };
    char since[16], until[16], range[48] = "all";
    release_text(file->since, since);
    release_text(file->until, until);
    if (file->since)
        snprintf(range, sizeof(range), "%s and later", since);
    if (file->until)
        snprintf(range, sizeof(range), "until %s", until);
    snprintf(text, 256, "\n| `%s` | %s | %s |", file->name, places[file->place], range);
}

TEST(plain, the_page_about_versions_has_the_rows_of_the_table_and_no_others)
{
    size_t rows = 0, listed = 0;
    const char *text = test_read_text(VERSIONS_PAGE);
    for (size_t i = 0; i < miopen_file_count; i++) {
        char row[256];
        if (miopen_files[i].until == MIOPEN_NEVER)
            continue;
        expected_row(&miopen_files[i], row);
        if (!strstr(text, row))
            fail_msg("the page lacks '%s'", row + 1);
        rows++;
    }
    for (const char *at = strstr(text, "\n## Files"), *end = strstr(text, "\n## Directories");
         (at = strstr(at, "\n| `")) && at < end; at++)
        listed++;
    assert_int_equal(listed, rows);
}
