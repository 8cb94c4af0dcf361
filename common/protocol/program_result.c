/* SPDX-License-Identifier: MIT */
#include "common/protocol/program_result.h"

#include <stdlib.h>
#include <string.h>

/* Returns false if the library lacks the output, which is the case if |output->size| fails. Sets
 * |to->failed| if the output cannot be read. */
static bool put_output(const struct program_output *output, void *program, struct buffer *to)
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

static uint32_t put_outputs(const struct program_functions *functions, void *program,
                            struct buffer *to)
{
    uint32_t present = 0;
    for (unsigned i = 0; i < PROGRAM_OUTPUTS; i++)
        if (functions->outputs[i].size && put_output(&functions->outputs[i], program, to))
            present |= 1u << i;
        else
            buffer_put_u32(to, 0);
    return present;
}

static bool put_names(const struct program_functions *functions, void *program,
                      struct bytes expressions, struct buffer *to)
{
    struct reader r = reader_of(expressions);
    while (reader_left(&r)) {
        struct bytes expression = reader_sized(&r);
        const char *name = NULL;
        if (functions->lowered(program, (const char *)expression.data, &name) != 0 || !name)
            return false;
        buffer_put_sized(to, expression);
        buffer_put_sized(to, bytes_of(name, strlen(name) + 1));
    }
    return true;
}

static bool put_log(const struct program_functions *functions, void *program,
                    const struct program_log_form *form, uint32_t *present, struct buffer *to)
{
    BUFFER_AUTO struct buffer log;
    buffer_init(&log, to->limit);
    if (!put_output(&functions->log, program, &log) || log.failed)
        return false;
    struct reader r = reader_of(buffer_view(&log));
    if (form)
        *present |= form->put(form->context, reader_sized(&r), to);
    else
        buffer_put(to, log.data, log.size);
    return true;
}

bool program_result_collect(const struct program_functions *functions, void *program,
                            struct bytes expressions, const struct program_log_form *log_form,
                            struct buffer *to)
{
    BUFFER_AUTO struct buffer outputs;
    buffer_init(&outputs, to->limit);
    uint32_t present = put_outputs(functions, program, &outputs);
    if (!put_log(functions, program, log_form, &present, &outputs))
        return false;
    buffer_put_u32(to, PROGRAM_RESULT_MAGIC);
    buffer_put_u32(to, present);
    buffer_put(to, outputs.data, outputs.size);
    return put_names(functions, program, expressions, to) && !outputs.failed && !to->failed;
}
