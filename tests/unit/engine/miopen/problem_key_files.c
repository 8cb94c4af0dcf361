/* SPDX-License-Identifier: MIT */

/* Reads every key of MIOpen's own files into a problem and writes it again. The few keys for which
 * kiln has no problem are counted by reason. */
#include "common/miopen/driver_line.h"
#include "engine/db/query.h"
#include "engine/miopen/problem_key.h"
#include "tests/support/test.h"
#include "tests/support/test_data.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum kiln_code key_parse(struct bytes text, struct problem *ret_problem,
                                 struct kiln_err *err);
typedef size_t key_write(const struct problem *p, char text[PROBLEM_KEY_MAX]);

#define FILE_MAX (256u << 20)

enum reason { LARGE_FILTER, LARGE_TENSOR, OLD_LAYOUT, REASON_COUNT };

static const struct {
    const char *says; /* part of the parser's message */
    const char *why;
} reasons[] = {
    [LARGE_FILTER] = { "is empty",
                       "the filter exceeds the padded input: MIOpen takes the output to be 1" },
    [LARGE_TENSOR] = { "2147483647", "a tensor has 2^31 elements or more" },
    [OLD_LAYOUT] = { "layout 'NCHW'",
                     "3-D rows that an older MIOpen called NCHW, where it asks for NCDHW today" },
};

struct tally {
    key_parse *reader;
    key_write *writer;
    uint64_t keys, exact, verbatim[REASON_COUNT];
};

struct expected {
    const char *file;
    uint64_t keys, verbatim[REASON_COUNT];
};

static void count_reason(struct tally *t, const char *message)
{
    for (size_t i = 0; i < REASON_COUNT; i++) {
        if (strstr(message, reasons[i].says)) {
            t->verbatim[i]++;
            return;
        }
    }
    fail_msg("an unexpected reason: %s", message);
}

static void try_key(struct tally *t, struct bytes key)
{
    char text[PROBLEM_KEY_MAX];
    struct problem p;
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = t->reader(key, &p, &err);
    t->keys++;
    if (rc == KILN_UNSUPPORTED) {
        count_reason(t, err.text);
        return;
    }
    if (rc)
        fail_msg("'%.*s': %s", (int)key.size, (const char *)key.data, err.text);
    must(problem_check(&p, &err), err);
    if (t->writer(&p, text) != key.size || memcmp(text, key.data, key.size) != 0)
        fail_msg("'%.*s' came back as '%s'", (int)key.size, (const char *)key.data, text);
    t->exact++;
}

static void compare(const struct tally *t, const struct expected *expected)
{
    print_message("%s: %llu keys, %llu exact\n", expected->file, (unsigned long long)t->keys,
                  (unsigned long long)t->exact);
    for (size_t i = 0; i < REASON_COUNT; i++)
        if (t->verbatim[i])
            print_message("    %llu verbatim: %s\n", (unsigned long long)t->verbatim[i],
                          reasons[i].why);
    assert_int_equal(t->keys, expected->keys);
    assert_int_equal(t->exact + t->verbatim[0] + t->verbatim[1] + t->verbatim[2], t->keys);
    assert_memory_equal(t->verbatim, expected->verbatim, sizeof(t->verbatim));
}

/* The caller unlinks the unpacked copy. */
static void unpack(const char *name, char ret_copy[64])
{
    snprintf(ret_copy, 64, "/tmp/kiln-test-XXXXXX");
    int fd = mkstemp(ret_copy);
    assert_true(fd >= 0);
    close(fd);
    test_data_copy(name, ret_copy);
}

static void try_find_file(const struct expected *expected)
{
    struct tally t = { .reader = find_key_parse, .writer = find_key_write };
    char copy[64];
    struct stat about;
    unpack(expected->file, copy);
    int fd = open(copy, O_RDONLY | O_CLOEXEC);
    assert_int_equal(unlink(copy), 0);
    assert_int_equal(fstat(fd, &about), 0);
    void *text = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(text, MAP_FAILED);
    const uint8_t *at = text, *end = at + about.st_size;
    while (at < end) {
        const uint8_t *line_end = memchr(at, '\n', (size_t)(end - at));
        const uint8_t *equals = memchr(at, '=', (size_t)(end - at));
        assert_true(line_end && equals && equals < line_end);
        try_key(&t, bytes_of(at, (size_t)(equals - at)));
        at = line_end + 1;
    }
    assert_int_equal(munmap(text, (size_t)about.st_size), 0);
    close(fd);
    compare(&t, expected);
}

/* Joins a row as MIOpen's own converter does: numbers, then texts, separated by 'x'. */
#define EACH_COLUMN                                                                       \
    "SELECT spatial_dim||'x'||in_channels||'x'||in_h||'x'||in_w||'x'||in_d||'x'||fil_h"   \
    "||'x'||fil_w||'x'||fil_d||'x'||out_channels||'x'||batchsize||'x'||pad_h||'x'||pad_w" \
    "||'x'||pad_d||'x'||conv_stride_h||'x'||conv_stride_w||'x'||conv_stride_d||'x'"       \
    "||dilation_h||'x'||dilation_w||'x'||dilation_d||'x'||bias||'x'||group_count||'x'"    \
    "||layout||'x'||data_type||'x'||direction FROM config"

/* Reads the keys of all rows of the PerfDb at |path|. If |is_copy| is true, unlinks the file
 * after opening it. */
static void try_perf_rows(const char *path, bool is_copy, const struct expected *expected)
{
    static const char *const statements[] = { EACH_COLUMN };
    struct db_options options = {
        .path = path,
        .statements = statements,
        .statement_count = 1,
        .value_max = 1u << 20,
        .cache_kib = 4096,
        .read_only = true,
        .immutable = true,
    };
    struct kiln_err err = KILN_ERR_INIT;
    struct tally t = { .reader = perf_key_parse, .writer = perf_key_write };
    KILN_AUTO(db) struct db *db = NULL;
    must(db_open(&options, &db, &err), err);
    assert_true(!is_copy || unlink(path) == 0);
    QUERY_AUTO struct query q = query_of(db, 0);
    bool row = true;
    must(query_step(&q, &row, &err), err);
    while (row) {
        try_key(&t, bytes_of_text(query_text(&q, 0)));
        must(query_step(&q, &row, &err), err);
    }
    compare(&t, expected);
}

static void try_perf_file(const struct expected *expected)
{
    char copy[64];
    unpack(expected->file, copy);
    try_perf_rows(copy, true, expected);
}

TEST(plain, every_find_key_of_gfx900_survives_or_is_reported)
{
    try_find_file(&(struct expected){ "gfx900_56.HIP.fdb.txt", 64583, { 78, 2, 0 } });
    try_find_file(&(struct expected){ "gfx900_56.OpenCL.fdb.txt", 1711, { 0, 0, 0 } });
}

TEST(plain, every_find_key_of_gfx906_survives_or_is_reported)
{
    try_find_file(&(struct expected){ "gfx906_60.HIP.fdb.txt", 120454, { 77, 34, 0 } });
}

TEST(plain, every_find_key_of_gfx90a_survives_or_is_reported)
{
    try_find_file(&(struct expected){ "gfx90a68.HIP.fdb.txt", 193590, { 364, 762, 0 } });
}

TEST(plain, every_find_key_of_gfx942_survives)
{
    try_find_file(&(struct expected){ "gfx942130.HIP.fdb.txt", 9600, { 0, 0, 0 } });
}

TEST(plain, every_perf_row_survives_or_is_reported)
{
    try_perf_file(&(struct expected){ "gfx900_56.db", 41922, { 8, 0, 39 } });
    try_perf_file(&(struct expected){ "gfx906_60.db", 99522, { 6, 6, 0 } });
    try_perf_file(&(struct expected){ "gfx942130.db", 9393, { 0, 0, 0 } });
}

TEST(plain, every_perf_row_that_miopen_wrote_for_a_user_survives)
{
    char path[512];
    test_data_path("userdb-gfx906_60/gfx906_60_1.1.0.udb", path);
    try_perf_rows(path, false, &(struct expected){ "gfx906_60_1.1.0.udb", 216, { 0, 0, 0 } });
}

/* Writes the problem of each line as a command line of the driver and as a FindDb key. Both must
 * give the same problem when parsed. */
static void try_driver_file(const char *name)
{
    char path[512], line[4096], driver[1024], key[PROBLEM_KEY_MAX];
    unsigned lines = 0;
    test_data_path(name, path);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    for (; fgets(line, sizeof(line), file); lines++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct problem first[3], by_line[3], by_key[3];
        unsigned count = 0;
        must(problem_named(bytes_of_text(line), first, &count, &err), err);
        assert_int_equal(count, 1);
        problem_to_driver(&first[0], driver, sizeof(driver));
        must(problem_named(bytes_of_text(driver), by_line, &count, &err), err);
        assert_true(problem_equal(&first[0], &by_line[0]));
        find_key_write(&first[0], key);
        must(problem_named(bytes_of_text(key), by_key, &count, &err), err);
        assert_true(problem_equal(&first[0], &by_key[0]));
    }
    (void)fclose(file);
    print_message("%s: %u lines, all exact\n", name, lines);
    assert_int_equal(lines, 69);
}

TEST(plain, every_driver_line_of_resnet50_survives)
{
    try_driver_file("resnet50-fp32-nchw.txt");
    try_driver_file("resnet50-fp16-nhwc.txt");
}
