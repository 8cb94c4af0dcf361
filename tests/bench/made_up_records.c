/* SPDX-License-Identifier: MIT */

/* Tests that kiln imports every record that the benchmarks make up. */
#include "common/base/fs.h"
#include "engine/tuning/tuning.h"
#include "tests/bench/tuning_data.h"
#include "tests/support/test.h"
#include "tests/support/tuning_work.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

struct fixture {
    struct kiln_err err;
    const char *directory;
    char file[96];
    struct tuning *tuning;
};

SET_UP(set_up)
{
    char notice[512];
    *f = (struct fixture){ .err = KILN_ERR_INIT, .directory = test_directory() };
    const struct tuning_options options = { .directory = f->directory };
    must(tuning_open(&options, &f->tuning, notice, &f->err), f->err);
}

TEAR_DOWN(tear_down) { tuning_destroy(f->tuning); }

FIXTURE(made_up, set_up, tear_down);

static struct tuning_counts import_file(struct fixture *f, const char *name)
{
    const struct tuning_job_events silent = { 0 };
    struct tuning_import import = {
        .path = f->file, .source_name = name, .tier = TUNING_TIER_SYSTEM, .library = ""
    };
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    must(tuning_file_name_parse(name, &import.name, &f->err), f->err);
    must(tuning_job_import(f->tuning, &import, &job, &f->err), f->err);
    must(work_all_steps(f->tuning, job, &silent, &f->err), f->err);
    return *tuning_job_counts(job);
}

static void expect_all_records(struct fixture *f, const char *name,
                               enum kiln_code (*make)(const char *path, struct kiln_err *err))
{
    snprintf(f->file, sizeof(f->file), "%s/%s", f->directory, name);
    must(make(f->file, &f->err), f->err);
    struct tuning_counts counts = import_file(f, name);
    assert_int_equal(counts.bad, 0);
    assert_true(counts.records > 0);
}

TEST_F(made_up, every_record_of_the_made_up_find_db_is_imported)
{
    expect_all_records(f, "gfx90a68.HIP.fdb.txt", data_make_find);
}

TEST_F(made_up, every_record_of_the_made_up_perf_db_is_imported)
{
    expect_all_records(f, "gfx906_60.db", data_make_perf);
}
