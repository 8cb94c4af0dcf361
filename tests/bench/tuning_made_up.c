/* SPDX-License-Identifier: MIT */

/* Made-up databases for machines without AMD's files. They have as many records as AMD's largest
 * databases, and lines of the same length. */
#include "tests/bench/tuning_data.h"

#include "common/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define FIND_RECORDS 193590u
#define FIND_BYTES_MAX (128u << 20)
/* Shortest time of a record. kiln refuses times that no GPU can reach; for the largest problem
 * below, these are times below 17 ms. */
#define FIND_TIME_MIN_MS 20
#define PERF_RECORDS 99522u
/* number of rows; PERF_ROWS - PERF_RECORDS records have two rows, the others one */
#define PERF_ROWS 148096u

/* Returns problem |index|. Problems 0 to 884 735 are all different. */
static struct problem problem_of(uint32_t index)
{
    static const uint32_t filters[] = { 1, 3, 5 },
                          types[] = { TYPE_FLOAT32, TYPE_FLOAT16, TYPE_BFLOAT16 };
    uint32_t rest =
        /* Shuffles: 7919 and 884736 are coprime, so different indices stay different. */
        (uint32_t)((uint64_t)index * 7919 % 884736);
    const uint32_t digits[] = { 3, 3, 8, 3, 16, 16, 16 };
    uint32_t digit[7];
    for (unsigned i = 0; i < 7; i++) {
        digit[i] = rest % digits[i];
        rest /= digits[i];
    }
    uint32_t filter = filters[digit[3]], size = 7 * (digit[6] + 1);
    return (struct problem){
        .direction = digit[0],
        .spatial_dims = 2,
        .type = types[digit[1]],
        .n = 1u << digit[2],
        .c = 64 * (digit[4] + 1),
        .k = 64 * (digit[5] + 1),
        .groups = 1,
        .in = { 1, size, size },
        .filter = { 1, filter, filter },
        .pad = { 0, filter / 2, filter / 2 },
        .stride = { 1, 1, 1 },
        .dilation = { 1, 1, 1 },
    };
}

static void add_find_line(struct buffer *text, uint32_t index)
{
    /* kiln refuses a line whose algorithm is for another direction than the key. */
    static const char *const directions[] = { [DIRECTION_FORWARD] = "Fwd",
                                              [DIRECTION_BACKWARD_DATA] = "BwdData",
                                              [DIRECTION_BACKWARD_WEIGHTS] = "BwdWeights" };
    static const char *const algorithms[] = { "ImplicitGEMM", "Direct", "Winograd" };
    static const char *const solvers[] = { "ConvBenchImplicitGemmXdlops", "ConvBenchDirectNaive",
                                           "ConvBenchWinogradRxS" };
    struct problem problem = problem_of(index);
    char line[PROBLEM_KEY_MAX + 512];
    size_t at = find_key_write(&problem, line);
    for (unsigned i = 0; i < 3; i++)
        at += (size_t)snprintf(line + at, sizeof(line) - at,
                               "%c%sVariant%u:%.6g,%u,miopenConvolution%sAlgo%s", i ? ';' : '=',
                               solvers[i], index % 97, FIND_TIME_MIN_MS + index % 1000 * 0.0137,
                               index % 4096 * 64, directions[problem.direction], algorithms[i]);
    buffer_put(text, line, at);
    buffer_put_u8(text, '\n');
}

enum kiln_code data_make_find(const char *path, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, FIND_BYTES_MAX);
    for (uint32_t i = 0; i < FIND_RECORDS; i++)
        add_find_line(&text, i);
    if (text.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make up %u records", FIND_RECORDS);
    KILN_AUTO(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot write '%s'", path);
    return fs_write_all(fd, buffer_view(&text), err);
}

static enum kiln_code add_perf_record(struct perf_db_writer *writer, uint32_t index,
                                      struct kiln_err *err)
{
    struct problem problem = problem_of(index);
    char key[PROBLEM_KEY_MAX], value[128];
    size_t size = perf_key_write(&problem, key);
    int n = snprintf(value, sizeof(value), "ConvBenchAsm3x3U:%u,%u,%u", index % 7 + 1,
                     index % 11 + 1, index % 3 + 1);
    if (index < PERF_ROWS - PERF_RECORDS)
        n += snprintf(value + n, sizeof(value) - (size_t)n, ";ConvBenchAsm1x1U:%u,8,2,64,2,4,1,4",
                      index % 3 + 1);
    const struct tuning_record record = { .key = bytes_of(key, size),
                                          .value = bytes_of(value, (size_t)n) };
    return perf_db_writer_add(writer, &record, err);
}

enum kiln_code data_make_perf(const char *path, struct kiln_err *err)
{
    KILN_AUTO(perf_db_writer) struct perf_db_writer *writer = NULL;
    enum kiln_code rc = perf_db_create(path, &writer, err);
    for (uint32_t i = 0; i < PERF_RECORDS && !rc; i++)
        rc = add_perf_record(writer, i, err);
    return rc ? rc : perf_db_writer_finish(writer, err);
}
