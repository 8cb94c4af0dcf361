/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/result.h"

#include <string.h>

#define RESULT_MAGIC 0x3143544bu /* "KTC1" */

/* ---- collecting ---- */

/* Appends an output, with its size before it.  Returns false if the library does not have the
 * output, because its function that returns the size then fails.  Sets |failed| if the output
 * cannot be read. */
static bool put_output(const struct rtc_output *output, void *program, struct buffer *to)
{
    size_t size = 0;
    if (output->size(program, &size) != 0)
        return false;
    buffer_put_u32(to, (uint32_t)size);
    size_t at = to->size;
    if (size > to->limit - at) {
        to->failed = true;
        return true;
    }
    if (size == 0)
        return true;
    char *bytes = calloc(1, size);
    if (!bytes || output->get(program, bytes) != 0)
        to->failed = true;
    else
        buffer_put(to, bytes, size);
    free(bytes);
    return true;
}

static uint32_t put_outputs(const struct rtc_functions *real, void *program, struct buffer *to)
{
    uint32_t present = 0;
    for (unsigned i = 0; i < RTC_OUTPUTS_MAX; i++)
        if (real->outputs[i].size && put_output(&real->outputs[i], program, to))
            present |= 1u << i;
        else
            buffer_put_u32(to, 0);
    return present;
}

static bool put_names(const struct rtc_functions *real, void *program, struct bytes expressions,
                      struct buffer *to)
{
    struct reader r = reader_of(expressions);
    while (reader_left(&r)) {
        struct bytes expression = reader_sized(&r);
        const char *name = NULL;
        if (real->lowered(program, (const char *)expression.data, &name) != 0 || !name)
            return false;
        buffer_put_sized(to, expression);
        buffer_put_sized(to, bytes_of(name, strlen(name) + 1));
    }
    return true;
}

bool rtc_result_collect(const struct rtc_library *library, void *program, struct bytes expressions,
                        struct buffer *to)
{
    BUFFER_AUTO struct buffer outputs;
    buffer_init(&outputs, to->limit);
    uint32_t present = put_outputs(&library->real, program, &outputs);
    buffer_put_u32(to, RESULT_MAGIC);
    buffer_put_u32(to, present);
    buffer_put(to, outputs.data, outputs.size);
    return put_output(&library->real.log, program, to) &&
           put_names(&library->real, program, expressions, to) && !outputs.failed && !to->failed;
}

/* ---- reading ---- */

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

enum kiln_code rtc_result_read(struct kiln_kernel *kernel, struct rtc_result *ret_result,
                               struct kiln_err *err)
{
    struct rtc_result result = { .kernel = kernel };
    struct reader r = reader_of(bytes_of(kiln_kernel_data(kernel), kiln_kernel_size(kernel)));
    uint32_t magic = reader_u32(&r);
    result.present = reader_u32(&r);
    for (unsigned i = 0; i < RTC_OUTPUTS_MAX; i++)
        result.outputs[i] = reader_sized(&r);
    result.log = reader_sized(&r);
    result.names = reader_take(&r, reader_left(&r));
    if (!r.failed && magic == RESULT_MAGIC && are_names(result.names)) {
        *ret_result = result;
        return KILN_OK;
    }
    kiln_kernel_unref(kernel);
    *ret_result = (struct rtc_result){ .kernel = NULL };
    return kiln_fail(err, KILN_CORRUPT, "the stored bytes are no result of a run-time compiler");
}

void rtc_result_done(struct rtc_result *result)
{
    kiln_kernel_unref(result->kernel);
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
