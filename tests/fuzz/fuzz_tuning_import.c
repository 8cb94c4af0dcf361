/* SPDX-License-Identifier: MIT */
/* Tests imports of tuning files into a host's databases. The records of the file are read, merged,
 * looked up, exported, and imported again. */
#include "tests/fuzz/fuzz.h"

#include "engine/tuning/tuning.h"
#include "tests/support/tuning_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = { "gfx90a68.HIP.fdb.txt",
                                     "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt",
                                     "gfx90a68.db.txt",
                                     "gfx90a68_1.1.0.udb",
                                     "gfx90a68.db",
                                     "gfx90a68.HIP.3_2_0_36bb7fd4a.fusion.ufdb.txt",
                                     "batchnorm_gfx90a68.db.txt" };

static struct tuning *open_tuning(const char *directory)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning *tuning = NULL;
    char notice[512];
    const struct tuning_options options = { .directory = directory,
                                            .records_per_uid = 1000,
                                            .stale = TUNING_WARN,
                                            .allow_network_fs = true };
    if (tuning_open(&options, &tuning, notice, &err))
        fuzz_expect(false, err.text);
    return tuning;
}

static bool import(struct tuning *tuning, const struct tuning_import *import, bool merges,
                   struct tuning_counts *ret_counts)
{
    static const struct tuning_job_events events;
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    enum kiln_code rc = merges ? tuning_job_merge(tuning, import, &job, &err)
                               : tuning_job_import(tuning, import, &job, &err);
    if (!rc)
        rc = work_all_steps(tuning, job, &events, &err);
    if (rc) {
        fuzz_expect(err.text[0], "a refusal is a sentence");
        return false;
    }
    while (!tuning_job_take(tuning, job)) {
    }
    tuning_job_clear(job);
    *ret_counts = *tuning_job_counts(job);
    return true;
}

static void look_up(struct tuning *tuning, const struct tuning_import *import)
{
    const struct problem problem = { .spatial_dims = 2,
                                     .n = 64,
                                     .c = 64,
                                     .k = 64,
                                     .groups = 1,
                                     .in = { 1, 56, 56 },
                                     .filter = { 1, 3, 3 },
                                     .pad = { 0, 1, 1 },
                                     .stride = { 1, 1, 1 },
                                     .dilation = { 1, 1, 1 } };
    const struct tuning_question question = { .kind = import->name.kind,
                                              .database_id = import->name.database_id,
                                              .backend = "",
                                              .uid = 1000,
                                              .problem = &problem,
                                              .driver = "",
                                              .toolchain = "",
                                              .nearest = true };
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_answer answer;
    if (tuning_find(tuning, &question, &answer, &err) == KILN_OK)
        fuzz_expect(answer.key.size > 0, "an answer names its record");
}

/* The exported file must be readable. A file of a system database must have as many records as were
 * imported, except those with TF32, which MIOpen does not support. */
static void export_again(struct tuning *tuning, const struct tuning_import *from, uint64_t records,
                         struct bytes source)
{
    bool has_tf32 = source.size >= 4 && memmem(source.data, source.size, "TF32", 4);
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_counts written = { 0 }, read = { 0 };
    const struct tuning_export what = { .name = from->name, .tier = from->tier, .uid = from->uid };
    struct tuning_import again = *from;
    char path[600];
    snprintf(path, sizeof(path), "%s", fuzz_path("written"));
    (void)unlink(path);
    if (tuning_export_file(tuning, &what, path, &written, &err))
        return;
    fuzz_expect(from->tier != TUNING_TIER_SYSTEM || has_tf32 || written.records == records,
                "every record of a system database is written");
    again.path = path;
    /* an old PerfDb can have two keys for one problem, which a strict import refuses */
    again.strict = false;
    fuzz_expect(import(tuning, &again, false, &read), "what was written can be read");
    fuzz_expect(read.records + read.bad == written.records, "and has as many records");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader r = reader_of(bytes_of(data, size));
    struct kiln_err err = KILN_ERR_INIT;
    const char *name = names[reader_u8(&r) % (sizeof(names) / sizeof(names[0]))];
    unsigned how = reader_u8(&r);
    struct tuning_counts counts = { 0 };
    char directory[600], path[600];
    snprintf(directory, sizeof(directory), "%s", fuzz_path("state"));
    struct bytes source = fuzz_rest(&r);
    snprintf(path, sizeof(path), "%s", fuzz_file("source", source));
    fuzz_remove(directory);
    struct tuning_import wish = { .path = path,
                                  .source_name = name,
                                  .tier = (enum tuning_tier)(TUNING_TIER_SYSTEM + how % 3),
                                  .uid = how % 3 == 2 ? 1000 : TUNING_NOBODY,
                                  .strict = how & 64,
                                  .library = "MIOpen" };
    fuzz_expect(tuning_file_name_parse(name, &wish.name, &err) == KILN_OK, "a known name");
    bool merges = (how & 128) && wish.tier != TUNING_TIER_SYSTEM;
    struct tuning *tuning = open_tuning(directory);
    if (import(tuning, &wish, merges, &counts)) {
        look_up(tuning, &wish);
        export_again(tuning, &wish, counts.records, source);
    }
    tuning_destroy(tuning);
    tuning = open_tuning(directory);
    look_up(tuning, &wish);
    tuning_destroy(tuning);
    return 0;
}
