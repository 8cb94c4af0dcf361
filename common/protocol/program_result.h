/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The stored form of what a run-time compiler returned: all outputs, the log and the lowered names.
 *
 * Role       libkiln-rtc and kiln-compiler write this form; libclient/rtc/result.c reads it
 * Ownership  the caller owns everything
 * Threading  plain functions
 *
 * The form is: PROGRAM_RESULT_MAGIC, the set of outputs that are present, PROGRAM_OUTPUTS sized
 * outputs, the sized log, then pairs of sized texts with their NUL: a name expression and its
 * lowered name.  In the set, bit i stands for output i; the highest bit says that the log is not
 * verbatim.  "Sized" means that the size comes first (buffer_put_sized).
 */
#include "common/base/bytes.h"

#define PROGRAM_RESULT_MAGIC 0x3243544bu

enum { PROGRAM_OUTPUTS = 4 };

struct program_output {
    int (*size)(void *program, size_t *ret_size);
    int (*get)(void *program, char *ret_bytes);
};

struct program_functions { /* of a run-time compiler; each returns 0 for success */
    int (*lowered)(void *program, const char *expression, const char **ret_name);
    struct program_output log;
    /* an output that the compiler lacks is zeroed */
    struct program_output outputs[PROGRAM_OUTPUTS];
};

struct program_log_form {
    /* Appends the log with its size before it.  Returns bits to add to the set of outputs (see
     * above). */
    uint32_t (*put)(const void *context, struct bytes log, struct buffer *to);
    const void *context;
};

/* Appends the result of |program| to |to|.  |expressions| has sized texts with their NUL. If
 * |log_form| is NULL, the log is stored verbatim.  Returns false if a part of the result cannot be
 * read or is too large for |to|. */
bool program_result_collect(const struct program_functions *functions, void *program,
                            struct bytes expressions, const struct program_log_form *log_form,
                            struct buffer *to);
