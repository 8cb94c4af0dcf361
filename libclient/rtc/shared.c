/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/shared.h"

#include "common/base/clock.h"
#include "engine/digest/program_key.h"
#include "libclient/client.h"
#include "libclient/kernels/compile.h"
#include "libclient/rtc/key.h"
#include "libclient/rtc/lookup.h"
#include "libclient/rtc/settings.h"
#include "libclient/rtc/variables.h"

#include <kiln/kernel.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull
#define INPUTS_MAX (8u << 20)
/* After kilnd answered that it lacks a library: how long this process does not ask kilnd to compile
 * with that library. */
#define LACKING_NS 600000000000u

struct packed_inputs {
    struct program_inputs inputs;
    struct buffer options, headers;
};

static void pack_done(struct packed_inputs *x)
{
    buffer_done(&x->options);
    buffer_done(&x->headers);
}

static void pack_option(struct buffer *to, const char *prefix, const char *option)
{
    /* options are separated by blanks, so one that contains a blank would become two */
    to->failed |= !*option || strchr(option, ' ');
    if (to->size)
        buffer_put_u8(to, ' ');
    buffer_put(to, prefix, strlen(prefix));
    buffer_put(to, option, strlen(option));
}

static void pack_options(const struct rtc_program *p, struct buffer *to)
{
    for (size_t i = 0; i < p->option_count; i++)
        pack_option(to, "", p->options[i]);
    if (p->architecture[0])
        pack_option(to, "--offload-arch=", p->architecture);
}

static void pack_headers(const struct rtc_program *p, struct buffer *to)
{
    for (size_t i = 0; i < p->header_count; i++) {
        const struct message_header header = { .name = bytes_of_text(p->headers[i].name),
                                               .text = bytes_of_text(p->headers[i].text) };
        message_header_write(to, &header);
    }
}

static bool pack(const struct rtc_program *p, struct packed_inputs *ret)
{
    buffer_init(&ret->options, LIMIT_OPTIONS_TEXT);
    buffer_init(&ret->headers, INPUTS_MAX);
    pack_options(p, &ret->options);
    pack_headers(p, &ret->headers);
    ret->inputs = (struct program_inputs){ .library = p->library->identity,
                                           .options = buffer_view(&ret->options),
                                           .name = bytes_of_text(key_name(p)),
                                           .source = bytes_of_text(p->source),
                                           .header_count = (uint32_t)p->header_count,
                                           .headers = buffer_view(&ret->headers),
                                           .expressions = buffer_view(&p->expressions) };
    return !ret->options.failed && !ret->headers.failed;
}

/* Returns whether the current directory has hiprtc's own header or a precompiled form of the
 * header, because clang looks in this directory first. */
static bool replaces_header(void)
{
    return access("hiprtc_runtime.h", F_OK) == 0 || access("hiprtc_runtime.h.pch", F_OK) == 0 ||
           access("hiprtc_runtime.h.gch", F_OK) == 0;
}

/* Returns whether the compile has the same result in kilnd's sandbox.  For hiprtc, the program must
 * have a name, because versions of hiprtc differ in how they handle a program without a name. */
static bool is_same_in_sandbox(const struct rtc_program *p)
{
    return p->library->kind == RTC_NVRTC ||
           (p->library->kind == RTC_HIPRTC && p->name && *p->name && !replaces_header());
}

/* kilnd's sandbox sets no variable that changes the output. */
static bool may_share(const struct rtc_program *p)
{
    return is_same_in_sandbox(p) && settings_mode() == RTC_ON &&
           !variables_are_set(variables_reader(p->library->kind)) && !strchr(key_name(p), '/') &&
           p->header_count <= LIMIT_HEADERS && clock_monotonic_ns() >= p->library->lacking_until_ns;
}

/* The caller calls pack_done, even if this function returns false. */
static bool pack_shareable(const struct rtc_program *p, struct packed_inputs *ret)
{
    *ret = (struct packed_inputs){ .inputs.source = bytes_of(NULL, 0) };
    return may_share(p) && pack(p, ret);
}

bool shared_key(const struct rtc_program *p, struct digest *ret_key)
{
    struct packed_inputs x;
    bool may = pack_shareable(p, &x);
    if (may)
        *ret_key = program_key(&x.inputs, &p->source_digest);
    pack_done(&x);
    return may;
}

static enum kiln_code let_compile(struct kiln_client *client, const struct rtc_program *p,
                                  struct kiln_kernel **ret_kernel)
{
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    struct packed_inputs x;
    enum kiln_code rc = KILN_DENIED;
    if (pack_shareable(p, &x) && !program_inputs_obstacle(&x.inputs))
        rc = compile_program(client, &x.inputs, clock_monotonic_ns() + settings_wait_ms() * MS,
                             ret_kernel, &failure);
    pack_done(&x);
    if (rc == KILN_TIMED_OUT)
        lookup_waited_in_vain();
    if (rc == KILN_UNAVAILABLE || rc == KILN_UNSUPPORTED)
        p->library->lacking_until_ns = clock_monotonic_ns() + LACKING_NS;
    return rc;
}

bool shared_compile(const struct rtc_program *p, struct rtc_result *ret_result,
                    uint64_t *ret_saved_ns)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct kiln_kernel *kernel = NULL;
    struct kiln_client *client = lookup_may_wait() ? lookup_client() : NULL;
    struct digest key;
    if (!client || let_compile(client, p, &kernel))
        return false;
    if (client->trace && shared_key(p, &key))
        lookup_note(p, &key, kernel);
    bool is_new = kiln_kernel_tier(kernel) == KILN_TIER_COMPILED;
    *ret_saved_ns = is_new ? 0 : kiln_kernel_compile_ns(kernel);
    return rtc_result_read(kernel, key_name(p), ret_result, &err) == KILN_OK;
}
