/* SPDX-License-Identifier: MIT */
#include "tests/bench/tuning_data.h"

#include "common/base/fs.h"
#include "engine/codec/bzip2.h"
#include "tests/support/whole_tuning_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FILE_MAX (512u << 20)

static const char *const names[] = {
    [TUNING_FIND] = "gfx90a68.HIP.fdb.txt", [TUNING_PERF] = "gfx906_60.db"
};

static enum kiln_code copy_file(int from, int to, bool packed, struct kiln_err *err)
{
    if (packed)
        return bzip2_unpack_file(from, to, FILE_MAX, NULL, err);
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FILE_MAX);
    enum kiln_code rc = fs_read_fd(from, FILE_MAX, &content, err);
    return rc ? rc : fs_write_all(to, buffer_view(&content), err);
}

/* Unpacks AMD's file. Returns KILN_NOT_FOUND without a message if the file does not exist. */
static enum kiln_code take_genuine(const struct tuning_data *data, struct kiln_err *err)
{
    const char *directory = getenv("KILN_TEST_DATA");
    char from[BENCH_PATH_MAX];
    int n = snprintf(from, sizeof(from), "%s/%s.bz2", directory ? directory : KILN_TEST_DATA,
                     data->name);
    if (n < 0 || n >= (int)sizeof(from))
        return kiln_fail(err, KILN_INVALID,
                         "KILN_TEST_DATA names a directory with too long a path");
    bool packed = access(from, R_OK) == 0;
    if (!packed)
        from[n - (int)strlen(".bz2")] = '\0';
    KILN_AUTO(fd) int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0)
        return KILN_NOT_FOUND;
    KILN_AUTO(fd) int out = open(data->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0)
        return kiln_fail_errno(err, errno, "cannot write '%s'", data->path);
    enum kiln_code rc = copy_file(in, out, packed, err);
    return rc ? kiln_while(err, "unpacking '%s'", from) : KILN_OK;
}

static enum kiln_code make_file(struct tuning_data *data, struct kiln_err *err)
{
    enum kiln_code rc = take_genuine(data, err);
    data->genuine = !rc;
    if (rc != KILN_NOT_FOUND)
        return rc;
    bench_say("tuning: there is no '%s' (KILN_TEST_DATA may name its directory): making one up",
              data->name);
    unlink(data->path);
    return data->kind == TUNING_FIND ? data_make_find(data->path, err)
                                     : data_make_perf(data->path, err);
}

struct sample {
    struct tuning_data *data;
    uint64_t random;
    uint64_t fit;   /* number of records so far whose key describes a problem */
    uint64_t bytes; /* total length of their keys and values */
};

static uint64_t next_random(struct sample *s, uint64_t below)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (s->random >> 33) % below;
}

static bool read_key(enum tuning_kind kind, struct bytes key, struct data_question *ret)
{
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = kind == TUNING_FIND ? find_key_parse(key, &ret->problem, &why)
                                            : perf_key_parse(key, &ret->problem, &why);
    if (rc || key.size >= sizeof(ret->key))
        return false;
    memcpy(ret->key, key.data, key.size);
    ret->key[key.size] = '\0';
    return true;
}

static bool on_record(void *context, const struct tuning_record *record)
{
    struct sample *s = context;
    struct tuning_data *d = s->data;
    d->records++;
    d->rows += record->entry_count;
    struct data_question question;
    if (!record->entry_count || !read_key(d->kind, record->key, &question))
        return true;
    uint64_t place = s->fit < DATA_QUESTIONS ? s->fit : next_random(s, s->fit + 1);
    s->fit++;
    s->bytes += record->key.size + record->value.size;
    if (place < DATA_QUESTIONS)
        d->questions[place] = question;
    return true;
}

static bool on_bad(void *context, uint64_t line, const char *why)
{
    (void)context;
    (void)line;
    (void)why;
    return true; /* the importer checks the value */
}

static void shuffle_questions(struct sample *s)
{
    struct data_question *q = s->data->questions;
    for (size_t i = s->data->question_count; i > 1; i--) {
        size_t other = next_random(s, i);
        struct data_question kept = q[i - 1];
        q[i - 1] = q[other];
        q[other] = kept;
    }
}

static enum kiln_code read_text(const struct tuning_data *data,
                                const struct tuning_reader_events *events, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(data->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", data->path);
    void *text = mmap(NULL, data->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map '%s'", data->path);
    enum kiln_code rc = tuning_text_read(data->kind, bytes_of(text, data->bytes), events, err);
    munmap(text, data->bytes);
    return rc;
}

static enum kiln_code choose_questions(struct tuning_data *data, struct kiln_err *err)
{
    struct sample sample = { .data = data, .random = 20261121 };
    const struct tuning_reader_events events = { .record = on_record,
                                                 .bad = on_bad,
                                                 .context = &sample };
    enum kiln_code rc = data->kind == TUNING_FIND ? read_text(data, &events, err)
                                                  : perf_db_read(data->path, &events, err);
    if (rc)
        return rc;
    data->question_count = sample.fit < DATA_QUESTIONS ? sample.fit : DATA_QUESTIONS;
    if (!data->question_count)
        return kiln_fail(err, KILN_CORRUPT, "'%s' has no records", data->name);
    data->answer_size = (size_t)(sample.bytes / sample.fit);
    shuffle_questions(&sample);
    return KILN_OK;
}

enum kiln_code data_prepare(enum tuning_kind kind, const char *work, struct tuning_data *ret_data,
                            struct kiln_err *err)
{
    struct tuning_data *data = ret_data;
    data->kind = kind;
    strcpy(data->name, names[kind]);
    enum kiln_code rc = bench_path(work, data->name, data->path, err);
    if (!rc)
        rc = make_file(data, err);
    struct stat seen;
    if (!rc && stat(data->path, &seen))
        rc = kiln_fail_errno(err, errno, "cannot look at '%s'", data->path);
    if (rc)
        return rc;
    data->bytes = (uint64_t)seen.st_size;
    return choose_questions(data, err);
}
