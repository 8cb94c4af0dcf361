/* SPDX-License-Identifier: MIT */
#include "engine/compile/rtc.h"
#include "common/messages.h"

/* Both libraries number these alike. */
#define RTC_OUT_OF_MEMORY 1
#define RTC_INVALID_OPTION 5
#define RTC_COMPILATION 6

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
        kiln_fail(err, KILN_COMPILE_FAILED, "the compiler reports errors: see the log");
    else if (result == RTC_INVALID_OPTION)
        kiln_fail(err, KILN_COMPILE_FAILED,
                  "the compiler does not take these options: see the log");
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

enum compile_end rtc_compile(const struct rtc_library *library, const struct compile_job *job,
                             struct arguments *options, struct buffer *ret_object,
                             struct kiln_err *err)
{
    __attribute__((cleanup(headers_done))) struct rtc_headers headers = { .count = 0 };
    if (options->failed || !headers_copy(job, &headers))
        return no_memory(err);
    return compile(library, job, options, &headers, ret_object, err);
}
