/* SPDX-License-Identifier: MIT */
#include "engine/compile/rtc.h"
#include "common/protocol/messages.h"
#include "common/protocol/program_result.h"
#include "engine/compile/identity.h"

#include <stdio.h>
#include <string.h>

#define RTC_OUT_OF_MEMORY 1
#define RTC_INVALID_OPTION 5
#define RTC_COMPILATION 6
#define RTC_BUILTIN_OPERATION 7

struct rtc {
    struct compiler base;
    const struct rtc_kind *kind;
    struct rtc_library library;
    char path[256];
    struct kiln_err builtins_err;
    bool has_compiled;
};

struct rtc_input {
    struct arguments options;
    char *source;
    char *name;
    char *header_names[LIMIT_HEADERS];
    char *header_texts[LIMIT_HEADERS];
    uint32_t header_count;
};

static void input_done(struct rtc_input *input)
{
    arguments_done(&input->options);
    free(input->source);
    free(input->name);
    for (uint32_t i = 0; i < input->header_count; i++) {
        free(input->header_names[i]);
        free(input->header_texts[i]);
    }
}

static bool copy_headers(const struct compile_job *job, struct rtc_input *input)
{
    struct reader r = reader_of(job->headers);
    for (uint32_t i = 0; i < job->header_count; i++) {
        struct message_header header = message_header_read(&r);
        input->header_names[i] = bytes_to_text(header.name);
        input->header_texts[i] = bytes_to_text(header.text);
        input->header_count++;
        if (!input->header_names[i] || !input->header_texts[i])
            return false;
    }
    return true;
}

static bool make_input(const struct rtc_kind *kind, const struct compile_job *job,
                       const struct target *target, struct rtc_input *input)
{
    if (job->is_program)
        arguments_add_options(&input->options, job->options, NULL);
    else
        kind->add_options(&input->options, job, target);
    input->source = bytes_to_text(job->source);
    input->name = bytes_to_text(job->program);
    return !input->options.failed && input->source && input->name && copy_headers(job, input);
}

static void write_log(const struct rtc_library *library, void *program)
{
    size_t size = 0;
    if (library->log_size(program, &size) != 0 || size <= 1)
        return;
    KILN_AUTO(mem) char *log = calloc(1, size + 1);
    if (log && library->log(program, log) == 0)
        compiler_log(log, size - 1);
}

/* Returns COMPILE_UNAVAILABLE, because the installation is at fault: kilnd must not record a
 * failure of the kernel. */
static enum compile_end fail_builtins(const struct rtc *rtc, struct kiln_err *err)
{
    if (rtc->builtins_err.code)
        *err = rtc->builtins_err;
    else
        kiln_fail(err, KILN_UNAVAILABLE, "%s cannot use its builtins (%s); %s", rtc->kind->what,
                  rtc->library.error_text(RTC_BUILTIN_OPERATION), rtc->kind->advice);
    return COMPILE_UNAVAILABLE;
}

static enum compile_end judge_result(const struct rtc *rtc, int result, struct kiln_err *err)
{
    if (result == RTC_OUT_OF_MEMORY)
        return compile_no_memory(err);
    if (result == RTC_BUILTIN_OPERATION)
        return fail_builtins(rtc, err);
    if (result == RTC_COMPILATION)
        kiln_fail(err, KILN_COMPILE_FAILED, "the compiler reports errors");
    else if (result == RTC_INVALID_OPTION)
        kiln_fail(err, KILN_COMPILE_FAILED, "the compiler does not accept these options");
    else
        kiln_fail(err, KILN_COMPILE_FAILED, "the compiler failed: %s",
                  rtc->library.error_text(result));
    return COMPILE_REFUSED;
}

static enum compile_end take_code(const struct rtc *rtc, void *program, struct buffer *ret_object,
                                  struct kiln_err *err)
{
    size_t size = 0;
    int result = rtc->library.code_size(program, &size);
    if (result)
        return judge_result(rtc, result, err);
    if (size > LIMIT_CODE_OBJECT) {
        kiln_fail(err, KILN_COMPILE_FAILED,
                  "the code object has %zu bytes, but at most %u are allowed", size,
                  LIMIT_CODE_OBJECT);
        return COMPILE_OUTPUT;
    }
    KILN_AUTO(mem) char *code = malloc(size + 1);
    if (!code)
        return compile_no_memory(err);
    result = rtc->library.code(program, code);
    if (result)
        return judge_result(rtc, result, err);
    buffer_put(ret_object, code, size);
    return ret_object->failed ? compile_no_memory(err) : COMPILE_DONE;
}

static int add_expressions(const struct rtc_library *library, void *program,
                           struct bytes expressions)
{
    struct reader r = reader_of(expressions);
    int result = 0;
    while (!result && reader_left(&r)) {
        struct bytes expression = reader_sized(&r);
        if (r.failed || !expression.size || expression.data[expression.size - 1] != '\0')
            return RTC_COMPILATION;
        result = library->add_name(program, (const char *)expression.data);
    }
    return result;
}

static bool may_have_path(const struct rtc_kind *kind, const struct buffer *result)
{
    for (const char *const *mark = kind->path_marks; *mark; mark++)
        if (memmem(result->data, result->size, *mark, strlen(*mark)))
            return true;
    return false;
}

static enum compile_end take_program(const struct rtc *rtc, void *program, struct bytes expressions,
                                     struct buffer *ret_object, struct kiln_err *err)
{
    const struct rtc_library *l = &rtc->library;
    const struct program_functions functions = {
        .lowered = l->lowered,
        .log = { l->log_size, l->log },
        .outputs = { { l->code_size, l->code },
                     { l->ptx_size, l->ptx },
                     { l->ltoir_size, l->ltoir },
                     { l->optixir_size, l->optixir } },
    };
    if (!program_result_collect(&functions, program, expressions, NULL, ret_object))
        kiln_fail(err, KILN_COMPILE_FAILED, "not all of the compiler's outputs can be read");
    else if (may_have_path(rtc->kind, ret_object))
        kiln_fail(err, KILN_COMPILE_FAILED, "the result may depend on the program's directory");
    else
        return COMPILE_DONE;
    return COMPILE_REFUSED;
}

static enum compile_end compile_input(const struct rtc *rtc, const struct compile_job *job,
                                      const struct rtc_input *input, struct buffer *ret_object,
                                      struct kiln_err *err)
{
    const struct rtc_library *library = &rtc->library;
    void *program = NULL;
    int result = library->create(&program, input->source, input->name, (int)input->header_count,
                                 (const char *const *)input->header_texts,
                                 (const char *const *)input->header_names);
    if (result)
        return judge_result(rtc, result, err);
    if (job->is_program)
        result = add_expressions(library, program, job->expressions);
    if (!result)
        result = library->compile(program, (int)input->options.count,
                                  (const char *const *)input->options.items);
    write_log(library, program);
    enum compile_end end = result ? judge_result(rtc, result, err)
                           : job->is_program
                               ? take_program(rtc, program, job->expressions, ret_object, err)
                               : take_code(rtc, program, ret_object, err);
    library->destroy(&program);
    return end;
}

enum compile_end rtc_compile(struct compiler *compiler, const struct compile_job *job,
                             const struct target *target, struct buffer *ret_object,
                             struct kiln_err *err)
{
    struct rtc *rtc = (struct rtc *)compiler;
    __attribute__((cleanup(input_done))) struct rtc_input input = { .header_count = 0 };
    if (!make_input(rtc->kind, job, target, &input))
        return compile_no_memory(err);
    enum compile_end end = compile_input(rtc, job, &input, ret_object, err);
    rtc->has_compiled |= end == COMPILE_DONE;
    return end;
}

/* Compiles a probe, so that the library loads comgr or its builtins: identity_put_loaded adds only
 * libraries that are loaded. If the compiler rejects |first_target|, it has loaded these libraries,
 * too, so this function succeeds. Other failures are returned: without one of these libraries, the
 * identity would look like that of another version. */
static enum kiln_code load_everything(struct rtc *rtc, struct kiln_err *err)
{
    const struct rtc_kind *kind = rtc->kind;
    struct compile_job job = compiler_probe_job(kind->ops->family);
    struct target target = { .family = kind->ops->family };
    struct kiln_err failure = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer object;
    buffer_init(&object, LIMIT_CODE_OBJECT);
    snprintf(target.text, sizeof(target.text), "%s", kind->first_target);
    enum compile_end end = rtc_compile(&rtc->base, &job, &target, &object, &failure);
    if (end == COMPILE_DONE || end == COMPILE_REFUSED)
        return KILN_OK;
    *err = failure;
    return err->code;
}

static bool compiles_programs(const struct rtc *rtc)
{
    const struct rtc_library *l = &rtc->library;
    return l->add_name && l->lowered && (!rtc->kind->builtins || (l->ptx_size && l->ptx));
}

enum kiln_code rtc_describe(struct compiler *compiler, struct toolchain *ret_toolchain,
                            struct kiln_err *err)
{
    struct rtc *rtc = (struct rtc *)compiler;
    struct identity id;
    int major = 0, minor = 0;
    enum kiln_code rc = rtc->has_compiled ? KILN_OK : load_everything(rtc, err);
    if (rc)
        return rc;
    rtc->library.version(&major, &minor);
    snprintf(ret_toolchain->version, sizeof(ret_toolchain->version), "%s %d.%d", rtc->kind->what,
             major, minor);
    snprintf(ret_toolchain->path, sizeof(ret_toolchain->path), "%s", rtc->path);
    identity_init(&id, compiler->ops->name, ret_toolchain->version);
    rc = identity_put_loaded(&id, rtc->kind->deciding, err);
    ret_toolchain->identity = identity_end(&id);
    if (!rc && compiles_programs(rtc))
        ret_toolchain->library = identity_of_build_ids(rtc->path, rtc->kind->parts);
    return rc;
}

static enum kiln_code open_library(struct rtc *rtc, struct kiln_err *err)
{
    const struct rtc_kind *kind = rtc->kind;
    const char *root = getenv(kind->root_variable);
    char directory[sizeof(rtc->path)];
    snprintf(directory, sizeof(directory), "%s/%s", root ? root : kind->root, kind->below);
    struct library_search search = {
        .what = kind->what,
        .directories = root ? (const char *const[]){ directory, NULL }
                            : (const char *const[]){ "", directory, NULL },
        .names = kind->names,
        .advice = kind->advice,
    };
    void *dl = NULL;
    enum kiln_code rc = library_open(&search, &dl, rtc->path, sizeof(rtc->path), err);
    if (rc)
        return rc;
    return library_bind(dl, kind->what, kind->symbols, &rtc->library, err);
}

/* Loads NVRTC's builtins library from NVRTC's own directory before NVRTC loads it by its bare name.
 * For a bare name, the dynamic linker reads /etc/ld.so.cache. It may not do so after ldconfig has
 * replaced that file, because Landlock only allows the file that existed when the process was
 * confined. A failure is reported only if NVRTC does not find the library. */
static void load_builtins(struct rtc *rtc)
{
    char directory[sizeof(rtc->path)], name[64], found[sizeof(rtc->path)];
    char *slash = strrchr(strcpy(directory, rtc->path), '/');
    int major = 0, minor = 0;
    void *dl = NULL;
    if (!rtc->kind->builtins || !slash)
        return;
    *slash = '\0';
    rtc->library.version(&major, &minor);
    snprintf(name, sizeof(name), "%s.%d.%d", rtc->kind->builtins, major, minor);
    struct library_search search = {
        .what = "the builtins library of NVRTC",
        .directories = (const char *const[]){ directory, NULL },
        .names = (const char *const[]){ name, NULL },
        .advice = rtc->kind->advice,
    };
    rtc->builtins_err.code = library_open(&search, &dl, found, sizeof(found), &rtc->builtins_err);
}

enum kiln_code rtc_open(const struct rtc_kind *kind, struct compiler **ret_compiler,
                        struct kiln_err *err)
{
    KILN_AUTO(mem) struct rtc *rtc = calloc(1, sizeof(*rtc));
    if (!rtc)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open %s", kind->what);
    rtc->base.ops = kind->ops;
    rtc->kind = kind;
    enum kiln_code rc = open_library(rtc, err);
    if (rc)
        return rc;
    load_builtins(rtc);
    *ret_compiler = &KILN_TAKE(rtc)->base;
    return KILN_OK;
}

void rtc_close(struct compiler *compiler) { free(compiler); }
