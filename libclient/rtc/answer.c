/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/answer.h"

#include "common/base/clock.h"
#include "libclient/rtc/files.h"
#include "libclient/rtc/identity.h"
#include "libclient/rtc/key.h"
#include "libclient/rtc/lookup.h"
#include "libclient/rtc/settings.h"

#define RESULT_MAX (64u << 20)

struct first {
    const struct answer_calls *calls;
    struct lookup *lookup;
    struct rtc_program *program;
};

/* Returns whether the library compiled |p| with an option of another program of this process. */
static bool has_foreign_options(const struct rtc_program *p)
{
    return p->library->kept_options & ~key_kept_options(p->library->kind, (int)p->option_count,
                                                        (const char *const *)p->options);
}

static bool publish(const struct first *f, struct bytes files, uint64_t took_ns,
                    const char **ret_reason)
{
    BUFFER_AUTO struct buffer result;
    buffer_init(&result, RESULT_MAX);
    if (!identity_holds(f->program->library))
        *ret_reason = "the compiler was upgraded while the process ran";
    else if (has_foreign_options(f->program))
        *ret_reason = "NVRTC may still use an option of an earlier program of the process";
    else if (!f->calls->collect(f->program, &result))
        *ret_reason = "the result is larger than 64 MiB, or not all of it can be read";
    else if (f->lookup->is_late && !lookup_retry(f->lookup, f->program))
        *ret_reason = f->lookup->reason;
    else if (lookup_publish(f->lookup, f->program, files, buffer_view(&result), took_ns))
        return true;
    else
        *ret_reason = "kilnd did not store the result";
    return false;
}

static int compile_here(const struct first *f)
{
    BUFFER_AUTO struct buffer files;
    struct rtc_program *p = f->program;
    buffer_init(&files, 4u << 20);
    uint64_t began_ns = clock_monotonic_ns();
    files_begin(p->library);
    int rc = f->calls->run(p);
    struct files_outcome noted = files_end(&files);
    const char *reason = noted.reason;
    p->expands_name = noted.has_unknown_names || key_expands_name(p, buffer_view(&noted.names));
    buffer_done(&noted.names);
    if (!rc && !reason &&
        publish(f, buffer_view(&files), clock_monotonic_ns() - began_ns, &reason)) {
        settings_count_stored(p->name);
        return rc;
    }
    lookup_give_back(f->lookup);
    settings_count_forwarded(rc ? "the compile failed" : reason, p->name);
    return rc;
}

/* Lets kilnd compile, because kilnd has no result yet.  If kilnd cannot compile, the real library
 * compiles, and kilnd stores its result. */
static int compile_first(const struct first *f)
{
    if (!f->calls->delegate || !f->calls->delegate(f->program))
        return compile_here(f);
    lookup_give_back(f->lookup);
    return 0;
}

static int compile_alone(const struct answer_calls *calls, struct rtc_program *p,
                         const char *reason)
{
    settings_count_forwarded(reason, p->name);
    return calls->run(p);
}

static int use_stored(const struct answer_calls *calls, struct rtc_program *p, struct lookup *l)
{
    if (settings_mode() == RTC_RECORD) {
        kiln_kernel_unref(l->stored);
        return compile_alone(calls, p, "KILN_RTC=record: the result is stored already");
    }
    lookup_note(p, &l->result, l->stored);
    if (!calls->use(p, l->stored))
        return compile_alone(calls, p, "the stored result is damaged");
    settings_count_hit(l->saved_ns, p->name);
    return 0;
}

int answer_compile(const struct answer_calls *calls, struct rtc_program *p,
                   const struct digest *shared)
{
    struct lookup l;
    int rc = 0;
    switch (lookup_begin(&l, p, shared)) {
    case LOOKUP_FOUND: rc = use_stored(calls, p, &l); break;
    case LOOKUP_COMPILE: rc = compile_first(&(struct first){ calls, &l, p }); break;
    case LOOKUP_NONE:
        rc = l.is_late ? compile_here(&(struct first){ calls, &l, p })
                       : compile_alone(calls, p, l.reason);
        break;
    }
    lookup_done(&l);
    return rc;
}
