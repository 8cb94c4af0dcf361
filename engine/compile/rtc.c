/* SPDX-License-Identifier: MIT */
#include "engine/compile/rtc.h"
#include "common/messages.h"
#include "engine/compile/identity.h"

#include <stdio.h>

/* Both libraries number these alike. */
#define RTC_OUT_OF_MEMORY 1
#define RTC_INVALID_OPTION 5
#define RTC_COMPILATION 6

struct rtc {
    struct compiler base;
    const struct rtc_kind *kind; /* borrowed */
    struct rtc_library library;
    char path[256];
    bool has_compiled; /* so it has opened all its libraries */
};

struct rtc_headers { /* terminated copies; NULL-terminated arrays are not needed */
    char *names[LIMIT_HEADERS];
    char *texts[LIMIT_HEADERS];
    uint32_t count;
};

static void headers_done(struct rtc_headers *h)
{
    for (uint32_t i = 0; i < h->count; i++) {
        free(h->names[i]);
        free(h->texts[i]);
    }
    h->count = 0;
}

static bool headers_copy(const struct compile_job *job, struct rtc_headers *h)
{
    struct reader r = reader_of(job->headers);
    for (uint32_t i = 0; i < job->header_count; i++) {
        struct message_header header = message_header_read(&r);
        h->names[i] = bytes_to_text(header.name);
        h->texts[i] = bytes_to_text(header.text);
        h->count++;
        if (!h->names[i] || !h->texts[i])
            return false;
    }
    return true;
}

static enum compile_end no_memory(struct kiln_err *err)
{
    kiln_fail(err, KILN_NO_MEMORY, "the compiler process is out of memory");
    return COMPILE_MEMORY;
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

static enum compile_end judge(const struct rtc_library *library, int result, struct kiln_err *err)
{
    if (result == RTC_OUT_OF_MEMORY)
        return no_memory(err);
    if (result == RTC_COMPILATION)
        kiln_fail(err, KILN_COMPILE_FAILED, "the compiler reports errors");
    else if (result == RTC_INVALID_OPTION)
        kiln_fail(err, KILN_COMPILE_FAILED, "the compiler does not take these options");
    else
        kiln_fail(err, KILN_COMPILE_FAILED, "the compiler failed: %s", library->error_text(result));
    return COMPILE_REFUSED;
}

static enum compile_end take_code(const struct rtc_library *library, void *program,
                                  struct buffer *ret_object, struct kiln_err *err)
{
    size_t size = 0;
    int result = library->code_size(program, &size);
    if (result)
        return judge(library, result, err);
    if (size > LIMIT_CODE_OBJECT) {
        kiln_fail(err, KILN_COMPILE_FAILED, "the code object of %zu bytes exceeds %u", size,
                  LIMIT_CODE_OBJECT);
        return COMPILE_OUTPUT;
    }
    KILN_AUTO(mem) char *code = malloc(size + 1);
    if (!code)
        return no_memory(err);
    result = library->code(program, code);
    if (result)
        return judge(library, result, err);
    buffer_put(ret_object, code, size);
    return ret_object->failed ? no_memory(err) : COMPILE_DONE;
}

static enum compile_end compile(const struct rtc_library *library, const struct compile_job *job,
                                const struct arguments *options, const struct rtc_headers *headers,
                                struct buffer *ret_object, struct kiln_err *err)
{
    KILN_AUTO(mem) char *source = bytes_to_text(job->source);
    KILN_AUTO(mem) char *name = bytes_to_text(job->program);
    void *program = NULL;
    if (!source || !name)
        return no_memory(err);
    int result =
        library->create(&program, source, name, (int)headers->count,
                        (const char *const *)headers->texts, (const char *const *)headers->names);
    if (result)
        return judge(library, result, err);
    result = library->compile(program, (int)options->count, (const char *const *)options->items);
    write_log(library, program);
    enum compile_end end =
        result ? judge(library, result, err) : take_code(library, program, ret_object, err);
    library->destroy(&program);
    return end;
}

enum compile_end rtc_compile(struct compiler *compiler, const struct compile_job *job,
                             const struct target *target, struct buffer *ret_object,
                             struct kiln_err *err)
{
    struct rtc *rtc = (struct rtc *)compiler;
    ARGUMENTS_AUTO struct arguments options = { 0 };
    __attribute__((cleanup(headers_done))) struct rtc_headers headers = { .count = 0 };
    rtc->kind->add_options(&options, job, target);
    if (options.failed || !headers_copy(job, &headers))
        return no_memory(err);
    enum compile_end end = compile(&rtc->library, job, &options, &headers, ret_object, err);
    rtc->has_compiled |= end == COMPILE_DONE;
    return end;
}

/* ---- which one is here ---- */

/* Further libraries (comgr, the built-in headers) are opened by the first compile, and only then
 * can be seen. */
static void load_everything(struct rtc *rtc)
{
    const struct rtc_kind *kind = rtc->kind;
    struct compile_job job = compiler_probe_job(kind->ops->family);
    struct target target = { .family = kind->ops->family };
    struct kiln_err ignored = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer object;
    buffer_init(&object, LIMIT_CODE_OBJECT);
    snprintf(target.text, sizeof(target.text), "%s", kind->first_target);
    (void)rtc_compile(&rtc->base, &job, &target, &object, &ignored);
}

enum kiln_code rtc_describe(struct compiler *compiler, struct toolchain *ret_toolchain,
                            struct kiln_err *err)
{
    struct rtc *rtc = (struct rtc *)compiler;
    struct identity id;
    int major = 0, minor = 0;
    if (!rtc->has_compiled)
        load_everything(rtc);
    rtc->library.version(&major, &minor);
    snprintf(ret_toolchain->version, sizeof(ret_toolchain->version), "%s %d.%d", rtc->kind->what,
             major, minor);
    snprintf(ret_toolchain->path, sizeof(ret_toolchain->path), "%s", rtc->path);
    identity_init(&id, compiler->ops->name, ret_toolchain->version);
    enum kiln_code rc = identity_put_loaded(&id, rtc->kind->deciding, err);
    ret_toolchain->identity = identity_end(&id);
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
    return library_bind(dl, kind->what, kind->symbols, kind->symbol_count, &rtc->library, err);
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
    *ret_compiler = &KILN_TAKE(rtc)->base;
    return KILN_OK;
}

void rtc_close(struct compiler *compiler) { free(compiler); }
