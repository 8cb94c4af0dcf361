/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/result.h"

#include "common/protocol/program_result.h"

#include <string.h>

_Static_assert((int)RTC_OUTPUTS_STORED == (int)PROGRAM_OUTPUTS, "the stored form has all outputs");

#define LOG_MAX (64u << 20)
/* stands for the program's name in a stored log */
#define NAME_MARK '\x01'
/* this bit of |present| says that the log has marks */
#define HAS_MARKS (1u << 31)

static const uint8_t *find(struct bytes where, struct bytes what)
{
    return where.size ? memmem(where.data, where.size, what.data, what.size) : NULL;
}

static void put_replaced(struct buffer *to, struct bytes log, struct bytes from, struct bytes by)
{
    const uint8_t *at;
    while ((at = find(log, from))) {
        size_t before = (size_t)(at - log.data);
        buffer_put(to, log.data, before);
        buffer_put(to, by.data, by.size);
        log = bytes_of(at + from.size, log.size - before - from.size);
    }
    buffer_put(to, log.data, log.size);
}

static bool put_log(struct buffer *to, struct bytes log, const char *name)
{
    BUFFER_AUTO struct buffer marked;
    const uint8_t mark = NAME_MARK;
    buffer_init(&marked, LOG_MAX);
    bool has_name =
        name && *name && find(log, bytes_of_text(name)) && !find(log, bytes_of(&mark, 1));
    if (has_name)
        put_replaced(&marked, log, bytes_of_text(name), bytes_of(&mark, 1));
    buffer_put_sized(to, has_name ? buffer_view(&marked) : log);
    to->failed |= marked.failed;
    return has_name;
}

static uint32_t put_log_without_name(const void *name, struct bytes log, struct buffer *to)
{
    return put_log(to, log, name) ? HAS_MARKS : 0;
}

bool rtc_result_collect(const struct rtc_library *library, void *program, struct bytes expressions,
                        const char *name, struct buffer *to)
{
    const struct rtc_functions *real = &library->real;
    const struct program_log_form log = { put_log_without_name, name };
    struct program_functions functions = { .lowered = real->lowered,
                                           .log = { real->log.size, real->log.get } };
    for (size_t k = 0; k < RTC_OUTPUTS_STORED; k++)
        functions.outputs[k] =
            (struct program_output){ real->outputs[k].size, real->outputs[k].get };
    return program_result_collect(&functions, program, expressions, &log, to);
}

static bool is_terminated(struct bytes b) { return b.size && b.data[b.size - 1] == '\0'; }

static bool are_names(struct bytes names)
{
    struct reader r = reader_of(names);
    while (reader_left(&r) && !r.failed) {
        struct bytes expression = reader_sized(&r), name = reader_sized(&r);
        if (!is_terminated(expression) || !is_terminated(name))
            return false;
    }
    return !r.failed;
}

static bool fill_in_log(struct rtc_result *result, const char *name)
{
    const uint8_t mark = NAME_MARK;
    buffer_init(&result->own_log, 2 * LOG_MAX);
    put_replaced(&result->own_log, result->log, bytes_of(&mark, 1), bytes_of_text(name));
    result->log = buffer_view(&result->own_log);
    return !result->own_log.failed;
}

enum kiln_code rtc_result_read(struct kiln_kernel *kernel, const char *name,
                               struct rtc_result *ret_result, struct kiln_err *err)
{
    struct rtc_result result = { .kernel = kernel };
    struct reader r = reader_of(bytes_of(kiln_kernel_data(kernel), kiln_kernel_size(kernel)));
    uint32_t magic = reader_u32(&r);
    result.present = reader_u32(&r);
    for (unsigned i = 0; i < RTC_OUTPUTS_STORED; i++)
        result.outputs[i] = reader_sized(&r);
    result.log = reader_sized(&r);
    result.names = reader_take(&r, reader_left(&r));
    if (!r.failed && magic == PROGRAM_RESULT_MAGIC && are_names(result.names) &&
        (!(result.present & HAS_MARKS) || fill_in_log(&result, name))) {
        *ret_result = result;
        return KILN_OK;
    }
    rtc_result_done(&result);
    *ret_result = result;
    return kiln_fail(err, KILN_CORRUPT, "the stored bytes are no result of a run-time compiler");
}

void rtc_result_done(struct rtc_result *result)
{
    kiln_kernel_unref(result->kernel);
    buffer_done(&result->own_log);
    *result = (struct rtc_result){ .kernel = NULL };
}

const char *rtc_result_lowered(const struct rtc_result *result, const char *expression)
{
    struct reader r = reader_of(result->names);
    while (reader_left(&r)) {
        struct bytes key = reader_sized(&r), name = reader_sized(&r);
        if (strcmp((const char *)key.data, expression) == 0)
            return (const char *)name.data;
    }
    return NULL;
}
