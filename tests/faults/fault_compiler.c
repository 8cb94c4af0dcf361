/* SPDX-License-Identifier: MIT */

/* The compilers of the test program fault_compiler. It is kiln-compiler with this file in the place
 * of engine/compile/compilers.c; main, worker and sandbox are the same. */
#include "common/base/fs.h"
#include "engine/compile/compiler.h"
#include "engine/digest/sha256.h"
#include "tests/faults/made_kernel.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OTHERS 1000u

static const struct compiler_ops made, refusing, absent;

static enum kiln_code open_made(struct compiler **ret_compiler, struct kiln_err *err)
{
    static struct compiler compiler = { .ops = &made };
    (void)err;
    *ret_compiler = &compiler;
    return KILN_OK;
}

static enum kiln_code describe_made(struct compiler *compiler, struct toolchain *ret_toolchain,
                                    struct kiln_err *err)
{
    (void)compiler;
    (void)err;
    snprintf(ret_toolchain->version, sizeof(ret_toolchain->version), "made");
    snprintf(ret_toolchain->path, sizeof(ret_toolchain->path), "nowhere");
    snprintf(ret_toolchain->only_target, sizeof(ret_toolchain->only_target), MADE_TARGET);
    ret_toolchain->identity = sha256_of(bytes_of_text("made"));
    return KILN_OK;
}

static void block_forever(void)
{
    for (;;)
        pause();
}

static enum compile_end compile_made(struct compiler *compiler, const struct compile_job *job,
                                     const struct target *target, struct buffer *ret_object,
                                     struct kiln_err *err)
{
    unsigned number = 0;
    (void)compiler;
    (void)target;
    if (!made_number(job->source, &number))
        number = (unsigned)(bytes_hash(job->source, 1) % OTHERS);
    if (made_is_endless(job->source))
        block_forever();
    for (size_t i = 0; i < made_size(number); i++)
        buffer_put_u8(ret_object, made_byte(number, i));
    if (!ret_object->failed)
        return COMPILE_DONE;
    kiln_fail(err, KILN_NO_MEMORY, "out of memory");
    return COMPILE_MEMORY;
}

static void close_made(struct compiler *compiler) { (void)compiler; }

/* Opens a compiler of a toolchain whose targets kilnd must probe. This compiler refuses every
 * target. */
static enum kiln_code open_refusing(struct compiler **ret_compiler, struct kiln_err *err)
{
    static struct compiler compiler = { .ops = &refusing };
    (void)err;
    *ret_compiler = &compiler;
    return KILN_OK;
}

static enum kiln_code describe_refusing(struct compiler *compiler, struct toolchain *ret_toolchain,
                                        struct kiln_err *err)
{
    (void)compiler;
    (void)err;
    snprintf(ret_toolchain->version, sizeof(ret_toolchain->version), "refusing");
    snprintf(ret_toolchain->path, sizeof(ret_toolchain->path), "nowhere");
    ret_toolchain->identity = sha256_of(bytes_of_text("refusing"));
    return KILN_OK;
}

static enum compile_end refuse_compile(struct compiler *compiler, const struct compile_job *job,
                                       const struct target *target, struct buffer *ret_object,
                                       struct kiln_err *err)
{
    (void)compiler;
    (void)job;
    (void)ret_object;
    kiln_fail(err, KILN_COMPILE_FAILED, "nothing is made for %s", target->text);
    return COMPILE_REFUSED;
}

static enum kiln_code open_absent(struct compiler **ret_compiler, struct kiln_err *err)
{
    (void)ret_compiler;
    return kiln_fail(err, KILN_UNAVAILABLE, "not in this test");
}

static const struct compiler_ops made = {
    .name = MADE_TOOLCHAIN,
    .family = TARGET_OPENCL,
    .open = open_made,
    .describe = describe_made,
    .compile = compile_made,
    .close = close_made,
};
static const struct compiler_ops refusing = {
    .name = REFUSING_TOOLCHAIN,
    .family = TARGET_NVIDIA,
    .open = open_refusing,
    .describe = describe_refusing,
    .compile = refuse_compile,
    .close = close_made,
};
static const struct compiler_ops absent = { .name = "absent",
                                            .family = TARGET_AMDGPU,
                                            .open = open_absent };

const struct compiler_ops *const compilers[COMPILERS] = { &made, &refusing, &absent, &absent };

const struct compiler_ops *compiler_find(struct bytes name)
{
    return bytes_equal_text(name, MADE_TOOLCHAIN)       ? &made
           : bytes_equal_text(name, REFUSING_TOOLCHAIN) ? &refusing
           : bytes_equal_text(name, "absent")           ? &absent
                                                        : NULL;
}

struct compile_job compiler_probe_job(enum target_family family)
{
    static char source[64];
    (void)family;
    made_source(0, source);
    return (struct compile_job){ .kind = COMPILE_PROBE,
                                 .program = bytes_of_text("probe.cl"),
                                 .source = bytes_of_text(source) };
}

void compiler_log(const char *text, size_t size)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    (void)!fs_write_all(STDERR_FILENO, bytes_of(text, size), &ignored);
}
