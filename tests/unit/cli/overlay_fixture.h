/* SPDX-License-Identifier: MIT */
#pragma once

/* Makes an overlay with a fake libkiln. Only one file of a test may include this header. */
#include "tests/support/test.h"
#include "tests/unit/cli/fake_transfer.h"
#include "tests/unit/cli/kilnctl_fake.h"
#include "tests/unit/cli/scratch_directory.h"

#include "engine/miopen/names/miopen_files.h"

#include <time.h>

struct fixture {
    struct command_run run;
    const char *directory;
    struct reported reported;
    char out[512], text[4096];
};

SET_UP(set_up)
{
    char absent[512];
    f->directory = fake_begin();
    scratch_path(f->directory, "out", f->out);
    setenv("MIOPEN_SYSTEM_DB_PATH", scratch_path(f->directory, "absent", absent), 1);
}

#define FILE_ENTRY(name, records) \
    "{\"files\":[{\"name\":\"" name "\",\"records\":" #records ",\"bytes\":1}]}"
#define USER_FIND "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt"

static inline void answer_all(void)
{
    fake.answers[0] = (struct fake_answer){ .reply = FILE_ENTRY("gfx90a68.HIP.fdb.txt", 9),
                                            .files = { "a=1\n" } };
    fake.answers[1] =
        (struct fake_answer){ .reply = FILE_ENTRY("gfx90a68.db", 8), .files = { "perf" } };
    fake.answers[2] =
        (struct fake_answer){ .reply = FILE_ENTRY(USER_FIND, 2), .files = { "k1=1\nk2=2\n" } };
    fake.answers[3] =
        (struct fake_answer){ .reply = FILE_ENTRY("gfx90a68_1.1.0.udb", 1), .files = { "udb" } };
    fake.answers[4] = (struct fake_answer){
        .reply = "{\"files\":[{\"name\":\"gfx90a68@2.17.0.a82233c22.ukdb\",\"descriptor\":0,"
                 "\"kernels\":3}]}",
        .files = { "kernels" }
    };
    fake.answers[5].reply = "{\"packages\":[]}";
}

#define OVERLAY(f, ...) \
    run_overlay((f), (const char *[]){ "miopen", "overlay", (f)->out, __VA_ARGS__, NULL })

static inline int run_overlay(struct fixture *f, const char *const *words)
{
    int count = 0;
    while (words[count])
        count++;
    fake.asked = 0;
    reported_begin(&f->reported);
    int rc = command_run(&f->run, count, words);
    reported_end(&f->reported);
    return rc;
}

static inline void overlay_all(struct fixture *f)
{
    answer_all();
    assert_int_equal(OVERLAY(f, "--db-id", "gfx90a68", "--miopen", "2.17.0.a82233c22"), KILN_E_OK);
    assert_int_equal(fake.asked, 6);
}

static inline const char *out_text(struct fixture *f, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "out/%s", name);
    return scratch_read(f->directory, path, f->text, sizeof(f->text));
}

/* Returns a file name that matches the pattern |file|, for a device other than the overlay's. */
static inline const char *example(const struct miopen_file *file, char text[128])
{
    const char *version = strstr(file->name, "SCHEMA")                 ? "1.1.0"
                          : file->until && file->until != MIOPEN_NEVER ? "2_20_0_f185a6464"
                                                                       : "3_5_2_";
    const struct miopen_words words = { bytes_of_text("gfx906_60"), bytes_of_text("HIP"),
                                        bytes_of_text(version) };
    miopen_file_write(file, &words, text);
    return text;
}

#define TAKEN                                                                                \
    "{\"kind\":\"find\",\"database_id\":\"gfx90a68\",\"backend\":\"HIP\",\"tier\":\"user\"," \
    "\"records\":1,\"entries\":1,\"added\":1,\"bad\":0}"

static inline int run_harvest(struct fixture *f)
{
    memset(&fake, 0, sizeof(fake));
    fake.answers[0].reply = TAKEN;
    fake.answers[1].reply = "{\"imported\":31,\"damaged\":0,\"lost\":0}";
    reported_begin(&f->reported);
    int rc = RUN(&f->run, "miopen", "harvest", f->out);
    reported_end(&f->reported);
    return rc;
}
