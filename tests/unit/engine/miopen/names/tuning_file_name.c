/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/miopen/names/tuning_file_name.h"

#include <string.h>

static const struct {
    const char *name;
    struct tuning_file_name is;
} known[] = {
    { "gfx90a68.HIP.fdb.txt", { TUNING_FIND, TUNING_TEXT, "gfx90a68", "HIP", "", false } },
    { "gfx900_56.OpenCL.fdb.txt", { TUNING_FIND, TUNING_TEXT, "gfx900_56", "OpenCL", "", false } },
    { "gfx906_60.HIP.2_17_0_a82233c22.ufdb.txt",
      { TUNING_FIND, TUNING_TEXT, "gfx906_60", "HIP", "2_17_0_a82233c22", true } },
    { "gfx906_60.db", { TUNING_PERF, TUNING_SQLITE, "gfx906_60", "", "", false } },
    { "gfx906_60_1.1.0.udb", { TUNING_PERF, TUNING_SQLITE, "gfx906_60", "", "1.1.0", true } },
    { "gfx906_xnack_60_1.1.0.udb",
      { TUNING_PERF, TUNING_SQLITE, "gfx906_xnack_60", "", "1.1.0", true } },
    { "gfx90a68_1.1.0.udb.txt", { TUNING_PERF, TUNING_TEXT, "gfx90a68", "", "1.1.0", true } },
    { "gfx90a_1.1.0.udb", { TUNING_PERF, TUNING_SQLITE, "gfx90a", "", "1.1.0", true } },
    { "gfx942130.db.txt", { TUNING_PERF, TUNING_TEXT, "gfx942130", "", "", false } },
    { "gfx90a68.HIP.3_2_0_36bb7fd4a.udb.txt",
      { TUNING_PERF, TUNING_TEXT, "gfx90a68", "", "3_2_0_36bb7fd4a", true } },
    { "gfx90a68.HIP.3_5_2_.udb.txt", { TUNING_PERF, TUNING_TEXT, "gfx90a68", "", "3_5_2_", true } },
    { "gfx90a68.HIP.2_20_0_f185a6464.cd.updb.txt",
      { TUNING_PERF, TUNING_TEXT, "gfx90a68", "", "2_20_0_f185a6464", true } },
    { "batchnorm_gfx90a68.HIP.3_2_0_36bb7fd4a.udb.txt",
      { TUNING_PERF, TUNING_TEXT, "gfx90a68", "batchnorm", "3_2_0_36bb7fd4a", true } },
    { "batchnorm_gfx906_60.db.txt",
      { TUNING_PERF, TUNING_TEXT, "gfx906_60", "batchnorm", "", false } },
    { "gfx90a68.HIP.3_1_0_261a49738.fusion.ufdb.txt",
      { TUNING_FIND, TUNING_TEXT, "gfx90a68", "HIP.fusion", "3_1_0_261a49738", true } },
    { "gfx90a68.OpenCL.fusion.fdb.txt",
      { TUNING_FIND, TUNING_TEXT, "gfx90a68", "OpenCL.fusion", "", false } },
    /* names that only kiln uses */
    { "sm_90_132.CUDA.fdb.txt", { TUNING_FIND, TUNING_TEXT, "sm_90_132", "CUDA", "", false } },
    { "sm_90_132.CUDA.3_2_0.ufdb.txt",
      { TUNING_FIND, TUNING_TEXT, "sm_90_132", "CUDA", "3_2_0", true } },
    { "sm_90_132.db", { TUNING_PERF, TUNING_SQLITE, "sm_90_132", "", "", false } },
    { "sm_90_132_1.1.0.udb", { TUNING_PERF, TUNING_SQLITE, "sm_90_132", "", "1.1.0", true } },
    { "opencl_1a2b3c4d.OpenCL.fdb.txt",
      { TUNING_FIND, TUNING_TEXT, "opencl_1a2b3c4d", "OpenCL", "", false } },
    { "opencl_1a2b3c4d_1.1.0.udb",
      { TUNING_PERF, TUNING_SQLITE, "opencl_1a2b3c4d", "", "1.1.0", true } },
    { "opencl_1a2b3c4d.db.txt", { TUNING_PERF, TUNING_TEXT, "opencl_1a2b3c4d", "", "", false } },
};

static void assert_same(const struct tuning_file_name *a, const struct tuning_file_name *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->format, b->format);
    assert_string_equal(a->database_id, b->database_id);
    assert_string_equal(a->backend, b->backend);
    assert_string_equal(a->version, b->version);
    assert_int_equal(a->is_user, b->is_user);
}

TEST(plain, tuning_file_names_are_read_and_written)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct tuning_file_name n;
        struct kiln_err err = KILN_ERR_INIT;
        char text[128], packed[128];
        must(tuning_file_name_parse(known[i].name, &n, &err), err);
        assert_same(&n, &known[i].is);

        tuning_file_name_write(&n, text);

        assert_string_equal(text, known[i].name);
        strcat(strcpy(packed, text), ".bz2");
        must(tuning_file_name_parse(packed, &n, &err), err);
        assert_same(&n, &known[i].is);
        assert_int_equal(tuning_file_name_is_miopens(&n), strstr(text, "gfx") != NULL);
    }
}

TEST(plain, older_names_of_perf_texts_are_read)
{
    struct tuning_file_name n;
    struct kiln_err err = KILN_ERR_INIT;
    must(tuning_file_name_parse("gfx906_60.cd.pdb.txt", &n, &err), err);
    assert_int_equal(n.kind, TUNING_PERF);
    assert_int_equal(n.format, TUNING_TEXT);
    assert_false(n.is_user);
    assert_string_equal(n.database_id, "gfx906_60");
    must(tuning_file_name_parse("gfx906_60.cd.updb.txt", &n, &err), err);
    assert_true(n.is_user);
}

static const struct {
    const char *name, *says;
} bad[] = {
    { "", "ending" },
    { ".db", "ending" },
    { ".bz2", "ending" },
    { "gfx906_60", "ending" },
    { "gfx906_60.kdb", "ending" },
    { "gfx906_60.txt", "ending" },
    { "gfx906_60.db.gz", "ending" },
    { "gfx906_60.db.bz2.bz2", "ending" },
    { "a/gfx906_60.db", "path" },
    { "gfx906_60.fdb.txt", "a backend" },
    { "gfx906_60..fdb.txt", "a backend" },
    { "gfx906_60.H-P.fdb.txt", "a backend" },
    { "gfx906_60.Metal.fdb.txt", "a backend" },
    { "gfx906_60.CUDA.fdb.txt", "'CUDA'" },
    { "gfx906_60.AVeryLongBackendsName.fdb.txt", "a backend" },
    { "gfx906_60.HIP.1_2.fdb.txt", "a backend" },
    { "gfx90a68.HIP.3_2_0_36bb7fd4a.newer.ufdb.txt", "a backend" },
    { "gfx90a68.HIP.fusion.ufdb.txt", "a backend" },
    { "sm_90_132.CUDA.fusion.fdb.txt", "'CUDA.fusion'" },
    { "gfx906_60.HIP..ufdb.txt", "version" },
    { "gfx906_60.HIP.2_17_0_0123456789012345678901234567890123.ufdb.txt", "version" },
    { "gfx906_60_1.1.0\x1b.udb", "version" },
    { "gfx999_60.db", "database id" },
    { "gfx906_61x.db", "database id" },
    { "sm_9.db", "database id" },
    { "sm_90a_132.db", "database id" },
    { "sm_90_132.HIP.fdb.txt", "'HIP'" },
    { "opencl_1a2b3c4d.HIP.fdb.txt", "'HIP'" },
    { "opencl_1a2b.OpenCL.fdb.txt", "database id" },
    { "gfx906_60_1.1.0.db", "database id" },
    { "\x1b]0;x.db", "'?]0;x.db'" },
};

TEST(plain, a_bad_tuning_file_name_is_refused_with_its_wrong_part)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tuning_file_name n;
        struct kiln_err err = KILN_ERR_INIT;
        if (tuning_file_name_parse(bad[i].name, &n, &err) != KILN_INVALID)
            fail_msg("'%s' was taken", bad[i].name);
        assert_says(err.text, bad[i].says);
    }
}
