/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/program.h"

#include "common/base/clock.h"
#include "engine/digest/sha256.h"
#include "libclient/rtc/answer.h"
#include "libclient/rtc/key.h"
#include "libclient/rtc/locks.h"
#include "libclient/rtc/settings.h"
#include "libclient/rtc/shared.h"

#include <stdlib.h>
#include <string.h>

#define EXPRESSIONS_MAX (1u << 20)

/* ---- the table of programs ---- */

static struct {
    struct hash_table by_handle;
} programs;

static uint64_t hash_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u;
}

static struct rtc_program *find_locked(const struct rtc_library *library, const void *handle)
{
    HASH_EACH (&programs.by_handle, hash_of(handle), struct rtc_program, link, p)
        if (p->handle == handle && p->library == library)
            return p;
    return NULL;
}

static struct rtc_program *find_program(const struct rtc_library *library, const void *handle)
{
    rtc_lock(RTC_LOCK_PROGRAMS);
    struct rtc_program *p = find_locked(library, handle);
    rtc_unlock(RTC_LOCK_PROGRAMS);
    return p;
}

static void free_options(struct rtc_program *p)
{
    for (size_t i = 0; i < p->option_count; i++)
        free(p->options[i]);
    free(p->options);
    p->options = NULL;
    p->option_count = 0;
}

void rtc_program_done(struct rtc_program *p)
{
    for (size_t i = 0; i < p->header_count; i++) {
        free(p->headers[i].name);
        free(p->headers[i].text);
    }
    free(p->headers);
    free(p->source);
    free(p->name);
    free_options(p);
    buffer_done(&p->expressions);
    buffer_done(&p->action);
    rtc_result_done(&p->result);
}

static void free_program(struct rtc_program *p)
{
    if (p)
        rtc_program_done(p);
    free(p);
}

static struct rtc_program *take_program(const struct rtc_library *library, const void *handle)
{
    rtc_lock(RTC_LOCK_PROGRAMS);
    struct rtc_program *p = find_locked(library, handle);
    if (p)
        hash_table_remove(&programs.by_handle, &p->link);
    rtc_unlock(RTC_LOCK_PROGRAMS);
    return p;
}

static void add_program(struct rtc_program *p)
{
    /* A program with the same handle may have been destroyed by a call that libkiln-rtc did not
     * see. */
    free_program(take_program(p->library, p->handle));
    rtc_lock(RTC_LOCK_PROGRAMS);
    hash_table_add(&programs.by_handle, &p->link, hash_of(p->handle));
    rtc_unlock(RTC_LOCK_PROGRAMS);
}

/* ---- compiling after all ---- */

static int call_compile(struct rtc_library *library, void *program, int option_count,
                        const char *const *options)
{
    if (options)
        library->kept_options |= key_kept_options(library->kind, option_count, options);
    return library->real.compile(program, option_count, options);
}

/* Lets the real library compile.  Keeps the stored result, because the caller may still use a
 * lowered name of it. */
static int compile_real(struct rtc_program *p)
{
    p->is_stored = false;
    return call_compile(p->library, p->handle, (int)p->option_count,
                        (const char *const *)p->options);
}

static struct rtc_program *find_stored(const struct rtc_library *library, const void *program)
{
    struct rtc_program *p = find_program(library, program);
    return p && p->is_stored ? p : NULL;
}

static void compile_after_all(struct rtc_program *p)
{
    settings_count_forwarded("the stored result does not have what the program asks for", p->name);
    (void)compile_real(p);
}

/* ---- inputs ---- */

static char *copy_text(struct rtc_program *p, const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    p->is_incomplete |= text && !copy;
    return copy;
}

static void copy_headers(struct rtc_program *p, const struct rtc_inputs *in)
{
    size_t count = in->header_count > 0 ? (size_t)in->header_count : 0;
    p->headers = count ? calloc(count, sizeof(*p->headers)) : NULL;
    p->is_incomplete |= count && !p->headers;
    for (size_t i = 0; p->headers && i < count; i++) {
        p->headers[i].name = copy_text(p, in->header_names ? in->header_names[i] : "");
        p->headers[i].text = copy_text(p, in->headers[i]);
        p->is_incomplete |= !p->headers[i].name || !p->headers[i].text;
        p->header_count++;
    }
}

static struct rtc_program *copy_inputs(struct rtc_library *library, void *handle,
                                       const struct rtc_inputs *in)
{
    struct rtc_program *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->library = library;
    p->handle = handle;
    p->source = copy_text(p, in->source);
    p->name = copy_text(p, in->name);
    buffer_init(&p->expressions, EXPRESSIONS_MAX);
    copy_headers(p, in);
    return p;
}

int rtc_create(struct rtc_library *library, void **ret_program, const struct rtc_inputs *in)
{
    int rc = library->real.create(ret_program, in->source, in->name, in->header_count, in->headers,
                                  in->header_names);
    if (rc || !in->source || settings_mode() == RTC_OFF)
        return rc;
    rtc_identify(library);
    struct rtc_program *p = copy_inputs(library, *ret_program, in);
    if (p && p->is_incomplete)
        free_program(p);
    else if (p)
        add_program(p);
    return rc;
}

int rtc_destroy(struct rtc_library *library, void **program)
{
    struct rtc_program *p = program ? take_program(library, *program) : NULL;
    int rc = library->real.destroy(program);
    free_program(p);
    return rc;
}

/* The real library must reject a name expression that comes after a compile.  So if a stored result
 * has replaced the compile, the real library compiles first. */
int rtc_add_name(struct rtc_library *library, void *program, const char *expression)
{
    struct rtc_program *stored = find_stored(library, program);
    if (stored)
        compile_after_all(stored);
    int rc = library->real.add_name(program, expression);
    struct rtc_program *p = rc ? NULL : find_program(library, program);
    if (!p)
        return rc;
    buffer_put_sized(&p->expressions, bytes_of(expression, strlen(expression) + 1));
    p->is_incomplete |= p->expressions.failed;
    return rc;
}

int rtc_set_callback(struct rtc_library *library, void *program, rtc_callback_fn *callback,
                     void *payload)
{
    int rc = library->real.set_callback(program, callback, payload);
    struct rtc_program *p = rc ? NULL : find_program(library, program);
    if (p)
        p->has_callback = callback != NULL;
    return rc;
}

static void copy_options(struct rtc_program *p, int count, const char *const *options)
{
    free_options(p);
    p->options = count > 0 ? calloc((size_t)count, sizeof(*p->options)) : NULL;
    p->is_incomplete |= count > 0 && !p->options;
    for (int i = 0; p->options && i < count; i++) {
        char *copy = copy_text(p, options[i] ? options[i] : "");
        if (!copy)
            return;
        p->options[p->option_count++] = copy;
    }
}

/* ---- compiling ---- */

static bool collect_result(struct rtc_program *p, struct buffer *to)
{
    return rtc_result_collect(p->library, p->handle, buffer_view(&p->expressions),
                              key_name_in_log(p), to);
}

static bool use_result(struct rtc_program *p, struct kiln_kernel *stored)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    rtc_result_done(&p->result);
    p->is_stored = rtc_result_read(stored, key_name(p), &p->result, &ignored) == KILN_OK;
    return p->is_stored;
}

static bool let_kilnd_compile(struct rtc_program *p)
{
    uint64_t saved_ns = 0;
    rtc_result_done(&p->result);
    p->is_stored = shared_compile(p, &p->result, &saved_ns);
    if (p->is_stored && saved_ns)
        settings_count_hit(saved_ns, p->name);
    else if (p->is_stored)
        settings_count_built(p->name);
    return p->is_stored;
}

static int answer(const struct answer_calls *calls, struct rtc_program *p)
{
    struct digest shared;
    p->source_digest = sha256_of(bytes_of_text(p->source));
    return answer_compile(calls, p, shared_key(p, &shared) ? &shared : NULL);
}

int rtc_compile(struct rtc_library *library, void *program, int option_count,
                const char *const *options)
{
    struct rtc_program *p = find_program(library, program);
    if (!p || option_count < 0 || (option_count > 0 && !options))
        return call_compile(library, program, option_count, options);
    /* The library may reject a second compile of a program.  So the library must now do the first
     * compile, which a stored result had replaced. */
    if (p->is_stored) {
        compile_after_all(p);
        return call_compile(library, program, option_count, options);
    }
    p->wanted_ns = clock_monotonic_ns();
    copy_options(p, option_count, options);
    p->architecture[0] = '\0';
    if (key_needs_device(p))
        (void)device_architecture(p->architecture);
    const char *obstacle = key_obstacle(p);
    const struct answer_calls calls = { .run = compile_real,
                                        .collect = collect_result,
                                        .use = use_result,
                                        .delegate = let_kilnd_compile };
    if (!obstacle)
        return answer(&calls, p);
    settings_count_forwarded(obstacle, p->name);
    return call_compile(library, program, option_count, options);
}

/* ---- results ---- */

int rtc_lowered(struct rtc_library *library, void *program, const char *expression,
                const char **ret_name)
{
    struct rtc_program *p = find_stored(library, program);
    const char *name = p && expression ? rtc_result_lowered(&p->result, expression) : NULL;
    if (name && ret_name) {
        *ret_name = name;
        return 0;
    }
    if (p)
        compile_after_all(p);
    return library->real.lowered(program, expression, ret_name);
}

static const struct rtc_output *real_output(const struct rtc_library *library, int output)
{
    return output == RTC_OUTPUTS_MAX ? &library->real.log : &library->real.outputs[output];
}

static bool find_output(const struct rtc_program *p, int output, struct bytes *ret_bytes)
{
    bool is_log = output == RTC_OUTPUTS_MAX;
    if (!is_log && (output >= RTC_OUTPUTS_STORED || !(p->result.present & 1u << output)))
        return false;
    *ret_bytes = is_log ? p->result.log : p->result.outputs[output];
    return true;
}

int rtc_output_size(struct rtc_library *library, int output, void *program, size_t *ret_size)
{
    struct bytes bytes;
    struct rtc_program *p = find_stored(library, program);
    if (p && ret_size && find_output(p, output, &bytes)) {
        *ret_size = bytes.size;
        return 0;
    }
    if (p)
        compile_after_all(p);
    return real_output(library, output)->size(program, ret_size);
}

int rtc_output_get(struct rtc_library *library, int output, void *program, char *ret_bytes)
{
    struct bytes bytes;
    struct rtc_program *p = find_stored(library, program);
    if (p && ret_bytes && find_output(p, output, &bytes)) {
        if (bytes.size)
            memcpy(ret_bytes, bytes.data, bytes.size);
        return 0;
    }
    if (p)
        compile_after_all(p);
    return real_output(library, output)->get(program, ret_bytes);
}
