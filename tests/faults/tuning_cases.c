/* SPDX-License-Identifier: MIT */
#include "tests/faults/engine_cases.h"

#include "common/base/fs.h"
#include "engine/tuning/tuning.h"
#include "tests/faults/invariants.h"
#include "tests/support/test.h"
#include "tests/support/tuning_work.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DEVICE "gfx90a68"
#define ALICE 1000u
#define BOB 1001u
/* the user who records a measurement after the operation, to show that the database still works */
#define CAROL 1002u
#define RECORDS 20u /* number of records in each imported file; Alice has as many */
#define SYSTEM_FILE DEVICE ".HIP.fdb.txt"
#define USER_FILE DEVICE ".HIP.2_17_0_a82233c22.ufdb.txt"
/* Time of version 0 of a record; later versions have shorter times. */
#define SLOWEST_MS 1000000u

/* The user or the file from which a record comes. Records of different owners are for different
 * problems. */
enum owner { OF_SYSTEM, OF_ALICE, OF_HOST, OF_MERGE, OWNERS, OF_CAROL };

static const char *key_of(enum owner owner, unsigned number, char key[80])
{
    snprintf(key, 80, "%u-56-56-3x3-64-56-56-%u-1x1-1x1-1x1-0-NCHW-FP32-F", 8u << owner,
             number + 1);
    return key;
}

static enum kiln_code open_tuning(const struct trial *t, struct tuning **ret_tuning,
                                  char notice[512], struct kiln_err *err)
{
    const struct tuning_options options = { .directory = t->directory, .allow_network_fs = true };
    *notice = '\0';
    return tuning_open(&options, ret_tuning, notice, err);
}

static void write_file_of(const char *directory, const char *name, enum owner owner,
                          unsigned version)
{
    struct kiln_err err = KILN_ERR_INIT;
    char path[256], line[200], key[80];
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 1u << 20);
    for (unsigned i = 0; i < RECORDS; i++) {
        int size = snprintf(line, sizeof(line), "%s=ConvA:%u,0,miopenConvolutionFwdAlgoDirect\n",
                            key_of(owner, i, key), SLOWEST_MS - version);
        buffer_put(&text, line, (size_t)size);
    }
    snprintf(path, sizeof(path), "%s/files/%s", directory, name);
    must(fs_replace_file(path, buffer_view(&text), 0600, &err), err);
}

static enum kiln_code finish_job(struct tuning *tuning, enum kiln_code rc, struct tuning_job *job,
                                 struct kiln_err *err)
{
    const struct tuning_job_events none = { .bad = NULL };
    if (!rc)
        rc = work_all_steps(tuning, job, &none, err);
    while (!rc && !tuning_job_take(tuning, job)) {
    }
    tuning_job_destroy(job);
    return rc;
}

static enum kiln_code put_record(struct tuning *tuning, enum owner owner, unsigned number,
                                 unsigned version, struct kiln_err *err)
{
    struct tuning_job *job = NULL;
    uint32_t uid = owner == OF_HOST ? TUNING_NOBODY : owner == OF_CAROL ? CAROL : ALICE;
    char key[80], values[64];
    snprintf(values, sizeof(values), "%u,0,miopenConvolutionFwdAlgoDirect", SLOWEST_MS - version);
    const struct tuning_row row = {
        .place = { .tier = uid == TUNING_NOBODY ? TUNING_TIER_HOST : TUNING_TIER_USER,
                   .uid = uid,
                   .kind = TUNING_FIND,
                   .database_id = DEVICE,
                   .backend = "HIP",
                   .key = bytes_of_text(key_of(owner, number, key)) },
        .id = bytes_of_text("ConvA"),
        .values = bytes_of_text(values),
        .measured = { .origin = { .device_uuid = "GPU-1",
                                  .device = "gfx90a",
                                  .driver = version % 2 ? "6.3" : "6.4",
                                  .toolchain = "clang 18",
                                  .library = "libkiln" },
                      .samples = 1,
                      .median_ms = SLOWEST_MS - version,
                      .measured_at = 1000 + version,
                      .uid = ALICE },
    };
    enum kiln_code rc = tuning_job_put(tuning, &row, 1, &job, err);
    return finish_job(tuning, rc, job, err);
}

static struct tuning_import import_of(const char *path, const char *name, enum tuning_tier tier,
                                      uint32_t uid)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_import import = {
        .path = path, .source_name = name, .tier = tier, .uid = uid, .library = "MIOpen"
    };
    must(tuning_file_name_parse(name, &import.name, &err), err);
    return import;
}

static enum kiln_code import_file(struct tuning *tuning, const char *directory, bool merges,
                                  struct kiln_err *err)
{
    struct tuning_job *job = NULL;
    char path[256];
    snprintf(path, sizeof(path), "%s/files/%s", directory, merges ? USER_FILE : SYSTEM_FILE);
    struct tuning_import import = merges ? import_of(path, USER_FILE, TUNING_TIER_USER, BOB)
                                         : import_of(path, SYSTEM_FILE, TUNING_TIER_SYSTEM, ALICE);
    enum kiln_code rc = merges ? tuning_job_merge(tuning, &import, &job, err)
                               : tuning_job_import(tuning, &import, &job, err);
    return finish_job(tuning, rc, job, err);
}

static enum kiln_code promote_records(struct tuning *tuning, struct kiln_err *err)
{
    struct tuning_job *job = NULL;
    const struct tuning_selection alices = { .by_uid = true, .uid = ALICE };
    const struct tuning_promotion alone = { .needs_two = false };
    enum kiln_code rc = tuning_job_promote(tuning, &alices, &alone, &job, err);
    return finish_job(tuning, rc, job, err);
}

static void prepare_empty(const char *directory) { (void)directory; }

static void prepare_full(const char *directory)
{
    struct trial t;
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning *tuning = NULL;
    char notice[512], files[128];
    snprintf(t.directory, sizeof(t.directory), "%s", directory);
    snprintf(files, sizeof(files), "%s/files", directory);
    assert_int_equal(mkdir(files, 0700), 0);
    write_file_of(directory, SYSTEM_FILE, OF_SYSTEM, 1);
    write_file_of(directory, USER_FILE, OF_MERGE, 1);
    must(open_tuning(&t, &tuning, notice, &err), err);
    must(import_file(tuning, directory, false, &err), err);
    must(import_file(tuning, directory, true, &err), err);
    for (unsigned i = 0; i < RECORDS; i++)
        must(put_record(tuning, OF_ALICE, i, 1, &err), err);
    must(put_record(tuning, OF_HOST, 0, 1, &err), err);
    tuning_destroy(tuning);
}

static void act_open(struct trial *t)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning *tuning = NULL;
    char notice[512];
    trial_mark(t);
    trial_step(t, open_tuning(t, &tuning, notice, &err), &err);
    tuning_destroy(tuning);
    trial_over(t);
}

static void change_tuning(struct trial *t,
                          enum kiln_code (*how)(struct trial *t, struct tuning *tuning,
                                                struct kiln_err *err))
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning *tuning = NULL;
    char notice[512];
    must(open_tuning(t, &tuning, notice, &err), err);
    trial_mark(t);
    trial_step(t, how(t, tuning, &err), &err);
    trial_over(t);
    must(put_record(tuning, OF_CAROL, 0, 1, &err), err);
    t->end->goes_on = true;
    tuning_destroy(tuning);
}

static enum kiln_code put_two(struct trial *t, struct tuning *tuning, struct kiln_err *err)
{
    if (!trial_step(t, put_record(tuning, OF_ALICE, 0, t->version, err), err))
        return t->end->rc;
    return put_record(tuning, OF_HOST, 0, t->version, err);
}

static enum kiln_code import_new(struct trial *t, struct tuning *tuning, struct kiln_err *err)
{
    return import_file(tuning, t->directory, false, err);
}

static enum kiln_code merge_new(struct trial *t, struct tuning *tuning, struct kiln_err *err)
{
    return import_file(tuning, t->directory, true, err);
}

static enum kiln_code promote_all(struct trial *t, struct tuning *tuning, struct kiln_err *err)
{
    (void)t;
    return promote_records(tuning, err);
}

static enum kiln_code vacuum_all(struct trial *t, struct tuning *tuning, struct kiln_err *err)
{
    struct tuning_job *job = NULL;
    (void)t;
    enum kiln_code rc = tuning_job_vacuum(tuning, &job, err);
    return finish_job(tuning, rc, job, err);
}

static enum kiln_code back_up(struct trial *t, struct tuning *tuning, struct kiln_err *err)
{
    struct tuning_job *job = NULL;
    char path[160];
    snprintf(path, sizeof(path), "%s/files/backup.db", t->directory);
    enum kiln_code rc = tuning_job_backup(tuning, path, &job, err);
    return finish_job(tuning, rc, job, err);
}

static enum kiln_code export_all(struct trial *t, struct tuning *tuning, struct kiln_err *err)
{
    char path[160];
    struct tuning_counts counts;
    struct tuning_export what = { .tier = TUNING_TIER_SYSTEM };
    snprintf(path, sizeof(path), "%s/files/out.txt", t->directory);
    enum kiln_code rc = tuning_file_name_parse(SYSTEM_FILE, &what.name, err);
    return rc ? rc : tuning_export_file(tuning, &what, path, &counts, err);
}

static void act_put(struct trial *t) { change_tuning(t, put_two); }
static void act_promote(struct trial *t) { change_tuning(t, promote_all); }
static void act_vacuum(struct trial *t) { change_tuning(t, vacuum_all); }
static void act_back_up(struct trial *t) { change_tuning(t, back_up); }
static void act_export(struct trial *t) { change_tuning(t, export_all); }

static void act_import(struct trial *t)
{
    write_file_of(t->directory, SYSTEM_FILE, OF_SYSTEM, t->version);
    change_tuning(t, import_new);
}

static void act_merge(struct trial *t)
{
    write_file_of(t->directory, USER_FILE, OF_MERGE, t->version);
    change_tuning(t, merge_new);
}

/* Returns 0 if there is no record. */
static unsigned version_of(struct tuning *tuning, uint32_t uid, enum owner owner, unsigned number)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_answer answer;
    char key[80];
    unsigned time = 0;
    const struct tuning_question question = {
        .kind = TUNING_FIND,
        .database_id = DEVICE,
        .backend = "HIP",
        .uid = uid,
        .key = bytes_of_text(key_of(owner, number, key)),
        .driver = "",
        .toolchain = "",
    };
    enum kiln_code rc = tuning_find(tuning, &question, &answer, &err);
    if (rc == KILN_NOT_FOUND)
        return 0;
    must(rc, err);
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 1000);
    buffer_put(&text, answer.value.data, answer.value.size);
    buffer_put_u8(&text, '\0');
    assert_int_equal(sscanf((const char *)text.data, "ConvA:%u,", &time), 1);
    return SLOWEST_MS - time;
}

static unsigned common_version(struct tuning *tuning, uint32_t uid, enum owner owner)
{
    unsigned first = version_of(tuning, uid, owner, 0);
    for (unsigned i = 1; i < RECORDS; i++)
        assert_int_equal(version_of(tuning, uid, owner, i), first);
    return first;
}

/* Returns the version of the first merged record. A merge stores its records in several
 * transactions, whose sizes depend on the clock. So after a failed merge, the first records may
 * have the new version, while the others still have version 1. */
static unsigned merged_version(struct tuning *tuning, const struct trial *t)
{
    unsigned first = version_of(tuning, BOB, OF_MERGE, 0), version = first;
    if (t->end->done > 0)
        return common_version(tuning, BOB, OF_MERGE);
    for (unsigned i = 1; i < RECORDS; i++) {
        unsigned next = version_of(tuning, BOB, OF_MERGE, i);
        assert_true(next == version || next == 1);
        version = next;
    }
    return first;
}

static unsigned owned_version(struct tuning *tuning, const struct trial *t, enum owner owner,
                              enum owner changed)
{
    uint32_t uid = owner == OF_ALICE ? ALICE : BOB;
    if (owner == OF_HOST || (owner == OF_ALICE && changed == OF_ALICE))
        return version_of(tuning, uid, owner, 0);
    if (owner == OF_MERGE && changed == OF_MERGE)
        return merged_version(tuning, t);
    return common_version(tuning, uid, owner);
}

static struct tuning *open_again(const struct trial *t)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning *tuning = NULL;
    char notice[512];
    expect_sound_tuning(t->directory);
    must(open_tuning(t, &tuning, notice, &err), err);
    assert_string_equal(notice, "");
    expect_tidy_tuning(t->directory);
    return tuning;
}

/* If the change was acknowledged, the records of |changed| must have the version of this trial.
 * Otherwise they may still have version 1. */
static void check_versions(const struct trial *t, enum owner changed)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning *tuning = open_again(t);
    for (enum owner o = OF_SYSTEM; o < OWNERS; o++) {
        unsigned version = owned_version(tuning, t, o, changed);
        if (o == changed && t->end->done > 0)
            assert_int_equal(version, t->version);
        else if (version != 1)
            assert_true(version == t->version &&
                        (o == changed || (o == OF_HOST && changed == OF_ALICE)));
    }
    if (!t->killed && t->end->goes_on)
        assert_int_equal(version_of(tuning, CAROL, OF_CAROL, 0), 1);
    for (unsigned i = 1; changed == OF_ALICE && i < RECORDS; i++)
        assert_int_equal(version_of(tuning, ALICE, OF_ALICE, i), 1);
    if (changed == OF_ALICE && t->end->done > 1)
        assert_int_equal(version_of(tuning, BOB, OF_HOST, 0), t->version);
    must(put_record(tuning, OF_ALICE, RECORDS, 1, &err), err);
    tuning_destroy(tuning);
}

static void check_same(const struct trial *t) { check_versions(t, OWNERS); }
static void check_put(const struct trial *t) { check_versions(t, OF_ALICE); }
static void check_imported(const struct trial *t) { check_versions(t, OF_SYSTEM); }
static void check_merged(const struct trial *t) { check_versions(t, OF_MERGE); }

/* A promotion of Alice's records makes all of them visible to Bob or, if it fails, none. */
static void check_promoted(const struct trial *t)
{
    struct tuning *tuning = open_again(t);
    unsigned version = common_version(tuning, BOB, OF_ALICE);
    assert_true(version == 1 || (version == 0 && t->end->done == 0));
    tuning_destroy(tuning);
    check_same(t);
}

/* There must be a complete backup, or none at all if the backup failed. */
static void check_backed_up(const struct trial *t)
{
    char path[160];
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, 16 << 20);
    snprintf(path, sizeof(path), "%s/files/backup.db", t->directory);
    enum kiln_code rc = fs_read_file(path, 16 << 20, &content, &err);
    assert_true(rc == KILN_OK || (rc == KILN_NOT_FOUND && t->end->done == 0));
    assert_true(t->killed || t->end->done || rc == KILN_NOT_FOUND);
    check_same(t);
}

static void check_exported(const struct trial *t)
{
    char in[160], out[160];
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer wanted, written;
    buffer_init(&wanted, 1 << 20);
    buffer_init(&written, 1 << 20);
    snprintf(in, sizeof(in), "%s/files/" SYSTEM_FILE, t->directory);
    snprintf(out, sizeof(out), "%s/files/out.txt", t->directory);
    must(fs_read_file(in, 1 << 20, &wanted, &err), err);
    if (t->end->done) {
        must(fs_read_file(out, 1 << 20, &written, &err), err);
        assert_true(bytes_equal(buffer_view(&wanted), buffer_view(&written)));
    }
    check_same(t);
}

static void check_opened(const struct trial *t) { tuning_destroy(open_again(t)); }

#define OPERATION(label, prepare, act, check) ENGINE_OPERATION(label, 0, prepare, act, check)

const struct operation tuning_operations[] = {
    OPERATION("tuning-create", prepare_empty, act_open, check_opened),
    OPERATION("tuning-open", prepare_full, act_open, check_same),
    OPERATION("tuning-put", prepare_full, act_put, check_put),
    OPERATION("tuning-import", prepare_full, act_import, check_imported),
    OPERATION("tuning-merge", prepare_full, act_merge, check_merged),
    OPERATION("tuning-promote", prepare_full, act_promote, check_promoted),
    OPERATION("tuning-pack", prepare_full, act_vacuum, check_same),
    OPERATION("tuning-backup", prepare_full, act_back_up, check_backed_up),
    OPERATION("tuning-export", prepare_full, act_export, check_exported),
};
const size_t tuning_operation_count = sizeof(tuning_operations) / sizeof(tuning_operations[0]);
