/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "engine/compile/arguments.h"
#include "engine/compile/clang_find.h"
#include "engine/compile/compiler.h"
#include "engine/compile/identity.h"
#include "engine/compile/program.h"
#include "engine/compile/scratch.h"
#include "engine/compile/worker_log.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define DIRECTORY "job"
/* Files in the job's directory. No source or header can have these names: their names never begin
 * with '-'. */
#define OBJECT "-object"
#define PRELUDE "-prelude"

extern const unsigned char hip_prelude[];
extern const unsigned long hip_prelude_size;

#define CLANG_REPORTED 1

struct clang {
    struct compiler base;
    char path[CLANG_PATH_MAX];
};

static void add_fixed(struct arguments *a, const struct clang *c, const struct target *target)
{
    static const char *const fixed[] = {
        "--no-default-config",
        "-x",
        "hip",
        "--offload-device-only",
        "--no-gpu-bundle-output",
        "-nogpuinc",
        "-nogpulib",
        "-nostdinc",
        "-nostdinc++",
        /* Without this option, the object would depend on the path of the temporary directory,
         * because clang derives the compilation unit's id from it. */
        "-fuse-cuid=none",
        "-fno-crash-diagnostics",
        "-fno-color-diagnostics",
        "-O3",
        "-std=c++17",
        "-DKILN_HIP=1",
        "-include",
        "./" PRELUDE,
        ("-I./" SCRATCH_HEADERS),
    };
    arguments_add(a, "%s", c->path);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        arguments_add(a, "%s", fixed[i]);
    arguments_add(a, "--offload-arch=%s", target->text);
}

static enum compile_end report_death(int number, struct kiln_err *err)
{
    if (number == SIGKILL) {
        kiln_fail(err, KILN_UNAVAILABLE,
                  "clang was killed by another process, or by the kernel for lack of memory (see "
                  "the kernel's log, then try again)");
        return COMPILE_UNAVAILABLE;
    }
    enum compile_end end = number == SIGXCPU   ? COMPILE_TIMED_OUT
                           : number == SIGXFSZ ? COMPILE_OUTPUT
                                               : COMPILE_CRASHED;
    kiln_fail(err, KILN_COMPILE_FAILED, "clang was ended by signal %d (%s)", number,
              strsignal(number));
    return end;
}

/* Converts the exit status of clang. If clang crashes, a signal ends its process. If only clang's
 * linker crashes, clang exits with an arbitrary status. */
static enum compile_end judge_status(int status, struct kiln_err *err)
{
    enum compile_end end = COMPILE_DONE;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return COMPILE_DONE;
    if (WIFEXITED(status) && WEXITSTATUS(status) == CLANG_REPORTED) {
        kiln_fail(err, KILN_COMPILE_FAILED, "the compiler reports errors");
        return COMPILE_REFUSED;
    }
    if (WIFSIGNALED(status)) {
        end = report_death(WTERMSIG(status), err);
    } else {
        kiln_fail(err, KILN_COMPILE_FAILED, "clang failed with status %d", WEXITSTATUS(status));
        end = COMPILE_CRASHED;
    }
    const char *text = NULL;
    KILN_AUTO(mem) char *log = worker_log_read(STDERR_FILENO);
    if (end == COMPILE_CRASHED)
        end = worker_log_cause(log, end, &text);
    if (text)
        kiln_fail(err, KILN_COMPILE_FAILED, "%s", text);
    return end;
}

static enum compile_end report_failure(struct kiln_err *err)
{
    return err->code == KILN_NO_MEMORY ? COMPILE_MEMORY
           : err->code == KILN_FULL    ? COMPILE_OUTPUT
                                       : COMPILE_UNAVAILABLE;
}

static enum compile_end run_clang(const struct arguments *arguments, struct kiln_err *err)
{
    pid_t pid;
    int status;
    struct program program = { .argv = (const char *const *)arguments->items,
                               .directory = DIRECTORY,
                               .out_fd = -1,
                               .pass_fd = -1 };
    if (program_start(&program, &pid, err) || program_wait(pid, &status, err))
        return report_failure(err);
    return judge_status(status, err);
}

static enum compile_end compile_here(const struct arguments *arguments,
                                     const struct compile_job *job, struct buffer *ret_object,
                                     struct kiln_err *err)
{
    struct bytes prelude = bytes_of(hip_prelude, hip_prelude_size);
    if (scratch_fill(DIRECTORY, job, err) || scratch_put(DIRECTORY, PRELUDE, prelude, err))
        return report_failure(err);
    enum compile_end end = run_clang(arguments, err);
    if (end == COMPILE_DONE &&
        fs_read_file(DIRECTORY "/" OBJECT, LIMIT_CODE_OBJECT, ret_object, err))
        return report_failure(err);
    return end;
}

static enum compile_end clang_compile(struct compiler *compiler, const struct compile_job *job,
                                      const struct target *target, struct buffer *ret_object,
                                      struct kiln_err *err)
{
    ARGUMENTS_AUTO struct arguments arguments = { 0 };
    add_fixed(&arguments, (struct clang *)compiler, target);
    arguments_add_options(&arguments, job->options, NULL);
    arguments_add(&arguments, "%.*s", (int)job->program.size, (const char *)job->program.data);
    arguments_add(&arguments, "-o");
    arguments_add(&arguments, OBJECT);
    if (arguments.failed)
        return compile_no_memory(err);
    fs_empty_directory(DIRECTORY);
    enum compile_end end = compile_here(&arguments, job, ret_object, err);
    fs_empty_directory(DIRECTORY);
    return end;
}

static enum kiln_code clang_describe(struct compiler *compiler, struct toolchain *ret_toolchain,
                                     struct kiln_err *err)
{
    static const char *const deciding[] = { "libLLVM", "libclang", "liblld", NULL };
    struct clang *c = (struct clang *)compiler;
    struct identity id;
    char linker[CLANG_PATH_MAX];
    enum kiln_code rc =
        clang_version(c->path, ret_toolchain->version, sizeof(ret_toolchain->version), err);
    if (rc)
        return rc;
    snprintf(ret_toolchain->path, sizeof(ret_toolchain->path), "%s", c->path);
    clang_linker(c->path, linker);
    identity_init(&id, compiler->ops->name, ret_toolchain->version);
    rc = identity_put_file(&id, c->path, err);
    if (!rc)
        rc = identity_put_needed(&id, c->path, deciding, err);
    if (!rc)
        rc = identity_put_file(&id, linker, err);
    ret_toolchain->identity = identity_end(&id);
    return rc;
}

static void clang_close(struct compiler *compiler) { free(compiler); }

static enum kiln_code clang_open(struct compiler **ret_compiler, struct kiln_err *err)
{
    KILN_AUTO(mem) struct clang *c = calloc(1, sizeof(*c));
    if (!c)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open clang");
    c->base.ops = &compiler_clang;
    enum kiln_code rc = clang_find(c->path, err);
    if (rc)
        return rc;
    *ret_compiler = &KILN_TAKE(c)->base;
    return KILN_OK;
}

const struct compiler_ops compiler_clang = {
    .name = "clang",
    .family = TARGET_AMDGPU,
    .open = clang_open,
    .describe = clang_describe,
    .compile = clang_compile,
    .close = clang_close,
};
