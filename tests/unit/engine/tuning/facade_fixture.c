/* SPDX-License-Identifier: MIT */
#include "facade_fixture.h"
#include "tests/support/test_buffer.h"
#include "tests/support/test_files.h"

#include "common/base/fs.h"
#include "engine/miopen/problem_key.h"
#include "tests/support/tuning_work.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* These replace libc's functions, also for SQLite, because tests need not survive a power cut. */
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc's names are reserved
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    (void)fd;
    return 0;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

void close_tuning(struct fixture *f)
{
    tuning_destroy(f->t);
    f->t = NULL;
}

enum kiln_code reopen(struct fixture *f)
{
    close_tuning(f);
    f->options.directory = f->directory;
    f->options.allow_network_fs = true;
    return tuning_open(&f->options, &f->t, f->notice, &f->err);
}

static void end_facade(void *f) { close_tuning(f); }

void open_facade(struct fixture *f)
{
    f->directory = test_directory();
    f->sources = test_subdirectory(f->directory, "files");
    test_buffer(&f->out, 1u << 30);
    test_at_end(end_facade, f);
    must(reopen(f), f->err);
}

unsigned files(struct fixture *f, const char *prefix, const char *part, char *ret_path)
{
    glob_t found = { 0 };
    char pattern[320];
    snprintf(pattern, sizeof(pattern), "%s/%s*%s*", f->directory, prefix, part);
    if (glob(pattern, 0, NULL, &found) == 0 && ret_path)
        snprintf(ret_path, 320, "%s", found.gl_pathv[found.gl_pathc - 1]);
    unsigned count = (unsigned)found.gl_pathc;
    globfree(&found);
    return count;
}

static void on_bad(void *context, uint64_t line, const char *why)
{
    struct fixture *f = context;
    f->bad++;
    f->bad_line = line;
    snprintf(f->bad_why, sizeof(f->bad_why), "%s", why);
}

static void on_verbatim(void *context, uint64_t line, struct bytes key, const char *why)
{
    struct fixture *f = context;
    assert_true(key.size > 0);
    f->verbatim++;
    f->verbatim_line = line;
    snprintf(f->verbatim_why, sizeof(f->verbatim_why), "%s", why);
}

static void on_conflict(void *context, const struct tuning_place *place, const char *why)
{
    struct fixture *f = context;
    (void)place;
    f->conflicts++;
    snprintf(f->conflict_why, sizeof(f->conflict_why), "%s", why);
}

static void on_plan_change(void *context, const struct tuning_plan_change *change)
{
    struct fixture *f = context;
    snprintf(f->plan_change, sizeof(f->plan_change), "%u: %.*s -> %.*s%s", (unsigned)change->uid,
             (int)change->from.size, (const char *)change->from.data, (int)change->to.size,
             (const char *)change->to.data, change->is_held ? ", held" : "");
}

static void on_promoter(void *context, const struct tuning_promoter *user)
{
    struct fixture *f = context;
    f->promoters++;
    f->promoter = *user;
}

enum kiln_code finish(struct fixture *f, enum kiln_code rc, struct tuning_job *job)
{
    struct tuning_job_events events = { .bad = on_bad,
                                        .verbatim = on_verbatim,
                                        .conflict = on_conflict,
                                        .plan_change = on_plan_change,
                                        .promoter = on_promoter,
                                        .context = f };
    f->bad = f->verbatim = f->conflicts = f->promoters = 0;
    f->plan_change[0] = '\0';
    if (!rc)
        rc = work_all_steps(f->t, job, &events, &f->err);
    if (!rc) {
        while (!tuning_job_take(f->t, job)) {
        }
        f->counts = *tuning_job_counts(job);
    }
    tuning_job_destroy(job);
    return rc;
}

static const char *source_path(struct fixture *f, const char *name)
{
    static char path[320];
    snprintf(path, sizeof(path), "%s/%s", f->sources, name);
    return path;
}

void write_source(struct fixture *f, const char *name, const char *text)
{
    must(fs_replace_file(source_path(f, name), bytes_of_text(text), 0600, &f->err), f->err);
}

struct tuning_import import_of(struct fixture *f, const char *name, enum tuning_tier tier,
                               uint32_t uid)
{
    struct tuning_import import = { .path = source_path(f, name),
                                    .source_name = name,
                                    .tier = tier,
                                    .uid = uid,
                                    .strict = f->strict,
                                    .library = "MIOpen" };
    must(tuning_file_name_parse(name, &import.name, &f->err), f->err);
    return import;
}

enum kiln_code import_text(struct fixture *f, const char *name, enum tuning_tier tier, uint32_t uid,
                           const char *text)
{
    struct tuning_job *job = NULL;
    write_source(f, name, text);
    struct tuning_import import = import_of(f, name, tier, uid);
    enum kiln_code rc = tuning_job_import(f->t, &import, &job, &f->err);
    return finish(f, rc, job);
}

enum kiln_code merge_text(struct fixture *f, const char *name, enum tuning_tier tier, uint32_t uid,
                          const char *text)
{
    struct tuning_job *job = NULL;
    write_source(f, name, text);
    struct tuning_import import = import_of(f, name, tier, uid);
    enum kiln_code rc = tuning_job_merge(f->t, &import, &job, &f->err);
    return finish(f, rc, job);
}

struct tuning_row row_of(const struct measured *m)
{
    return (struct tuning_row){
        .place = { .tier = m->tier,
                   .uid = m->tier == TUNING_TIER_USER ? m->uid : TUNING_NOBODY,
                   .kind = m->kind,
                   .database_id = DEVICE,
                   .backend = m->kind == TUNING_FIND ? "HIP" : "",
                   .key = bytes_of_text(m->key) },
        .id = bytes_of_text(m->id),
        .values = bytes_of_text(m->values),
        .measured = { .origin = { .device_uuid = "GPU-1",
                                  .device = "gfx90a:sramecc+:xnack-",
                                  .driver = m->driver ? m->driver : "6.3",
                                  .toolchain = "clang 18",
                                  .library = "libkiln 0.1.0",
                                  .clock_mhz = 1700 },
                      .samples = m->samples,
                      .median_ms = m->median_ms,
                      .spread_ms = m->spread_ms,
                      .measured_at = m->measured_at,
                      .uid = m->uid },
    };
}

enum kiln_code put(struct fixture *f, const struct measured *m)
{
    struct tuning_job *job = NULL;
    struct tuning_row row = row_of(m);
    enum kiln_code rc = tuning_job_put(f->t, &row, 1, &job, &f->err);
    return finish(f, rc, job);
}

static enum tuning_tier tier_of(uint32_t uid)
{
    return uid == THE_HOST ? TUNING_TIER_HOST : TUNING_TIER_USER;
}

enum kiln_code put_find(struct fixture *f, uint32_t uid, const char *key, const char *id,
                        const char *values)
{
    struct measured m = { .tier = tier_of(uid), .uid = uid, .key = key, .id = id };
    m.kind = TUNING_FIND;
    m.values = values;
    return put(f, &m);
}

enum kiln_code put_perf(struct fixture *f, uint32_t uid, const char *id, const char *params)
{
    struct measured m = { .tier = tier_of(uid), .uid = uid, .key = PERF_KEY, .id = id };
    m.kind = TUNING_PERF;
    m.values = params;
    return put(f, &m);
}

enum kiln_code remove_selected(struct fixture *f, const struct tuning_selection *selection)
{
    struct tuning_job *job = NULL;
    enum kiln_code rc = tuning_job_remove(f->t, selection, &job, &f->err);
    return finish(f, rc, job);
}

enum kiln_code promote(struct fixture *f, const struct tuning_selection *selection)
{
    struct tuning_job *job = NULL;
    enum kiln_code rc = tuning_job_promote(f->t, selection, &f->promotion, &job, &f->err);
    return finish(f, rc, job);
}

enum kiln_code undo_promotion(struct fixture *f)
{
    struct tuning_job *job = NULL;
    enum kiln_code rc = tuning_job_undo_promotion(f->t, &job, &f->err);
    return finish(f, rc, job);
}

struct tuning_question find_question(uint32_t uid, const char *key)
{
    return (struct tuning_question){ .kind = TUNING_FIND,
                                     .database_id = DEVICE,
                                     .backend = "",
                                     .uid = uid,
                                     .key = bytes_of_text(key) };
}

struct tuning_question perf_question(uint32_t uid, const char *key)
{
    struct tuning_question q = find_question(uid, key);
    q.kind = TUNING_PERF;
    return q;
}

struct problem problem_of(const char *find_key)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct problem problem;
    must(find_key_parse(bytes_of_text(find_key), &problem, &err), err);
    return problem;
}

const char *value_for(struct fixture *f, const struct tuning_question *question,
                      struct tuning_answer *ret_answer)
{
    static char text[70000];
    memset(&f->err, 0, sizeof(f->err));
    enum kiln_code rc = tuning_find(f->t, question, ret_answer, &f->err);
    if (rc == KILN_NOT_FOUND) {
        assert_string_equal(f->err.text, "");
        return "";
    }
    must(rc, f->err);
    snprintf(text, sizeof(text), "%.*s", (int)ret_answer->value.size,
             (const char *)ret_answer->value.data);
    return text;
}

const char *find_value(struct fixture *f, uint32_t uid, const char *key)
{
    struct tuning_answer answer;
    struct tuning_question question = find_question(uid, key);
    return value_for(f, &question, &answer);
}

const char *perf_value(struct fixture *f, uint32_t uid, const char *key)
{
    struct tuning_answer answer;
    struct tuning_question question = perf_question(uid, key);
    return value_for(f, &question, &answer);
}

const char *export_text(struct fixture *f, const char *name, struct tuning_export what)
{
    char path[320];
    snprintf(path, sizeof(path), "%s/exported", f->sources);
    must(tuning_file_name_parse(name, &what.name, &f->err), f->err);
    enum kiln_code rc = tuning_export_file(f->t, &what, path, &f->counts, &f->err);
    f->out.size = 0;
    if (rc == KILN_NOT_FOUND) {
        assert_int_not_equal(access(path, F_OK), 0);
        return "";
    }
    must(rc, f->err);
    must(fs_read_file(path, 1u << 30, &f->out, &f->err), f->err);
    buffer_put_u8(&f->out, '\0');
    unlink(path);
    return (const char *)f->out.data;
}
