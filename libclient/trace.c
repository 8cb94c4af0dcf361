/* SPDX-License-Identifier: MIT */
#include "libclient/trace.h"

#include "common/base/clock.h"
#include "common/base/hash_table.h"
#include "common/base/trace_file.h"
#include "libclient/notice.h"
#include "libclient/plans/plan.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "KILN_TRACE"
#define BY_SLURM "on"
#define SLURM_VARIABLE "SLURM_JOB_NAME"

struct seen {
    struct hash_link link;
    bool is_failure;
    size_t size;
    uint8_t identity[];
};

struct trace {
    pthread_mutex_t mutex; /* protects the members below it */
    char job[TRACE_JOB_MAX];
    char host[TRACE_JOB_MAX];
    const char *software; /* borrowed from the client */
    uint64_t opened_ns, start_us;
    bool is_open, has_ended;
    struct trace_file file;
    struct hash_table seen;
};

/* ---- the file ---- */

static const char *given_name(void)
{
    const char *name = secure_getenv(VARIABLE);
    if (!name || strcmp(name, BY_SLURM) != 0)
        return name;
    const char *of_slurm = secure_getenv(SLURM_VARIABLE);
    return of_slurm && *of_slurm ? of_slurm : "job";
}

struct trace *trace_create(const char *software)
{
    const char *name = given_name();
    char job[TRACE_JOB_MAX], host[256] = "";
    struct trace *t = name && trace_job_name(name, job) ? calloc(1, sizeof(*t)) : NULL;
    if (!t)
        return NULL;
    pthread_mutex_init(&t->mutex, NULL);
    memcpy(t->job, job, sizeof(t->job));
    if (gethostname(host, sizeof(host) - 1) != 0 || !trace_job_name(host, t->host))
        memcpy(t->host, "host", sizeof("host")); /* the file's name needs a host, too */
    t->software = software;
    t->opened_ns = clock_monotonic_ns();
    t->start_us = clock_wall_us();
    t->file.fd = -1;
    return t;
}

/* Does not lock the mutex: in a forked child, the mutex may be locked for ever by a thread that
 * exists only in the parent. */
void trace_destroy(struct trace *t)
{
    if (!t)
        return;
    trace_file_close(&t->file);
    HASH_ALL (&t->seen, struct seen, link, seen)
        free(seen);
    hash_table_done(&t->seen);
    free(t);
}

static void print_notice(const char *why)
{
    char line[700];
    int size = snprintf(line, sizeof(line), "kiln: no trace of this process: %.500s\n", why);
    if (size > 0)
        notice_print(line, (size_t)size);
}

static bool open_once(struct trace *t)
{
    struct kiln_err err = KILN_ERR_INIT;
    const struct trace_line process = { .kind = TRACE_PROCESS,
                                        .start_us = t->start_us,
                                        .host = bytes_of_text(t->host),
                                        .pid = (uint64_t)getpid(),
                                        .rest = bytes_of_text(t->software) };
    if (t->is_open || t->has_ended)
        return t->is_open;
    t->is_open = trace_file_create(t->job, TRACE_ENDING, &process, &t->file, &err) == KILN_OK;
    t->has_ended = !t->is_open;
    if (t->has_ended)
        print_notice(err.text);
    return t->is_open;
}

/* Remembers |identity|.  Returns false if it was remembered before, or if it cannot be remembered.
 * Failures are remembered separately, so the first use after a failure is also noted. */
static bool is_first_use(struct trace *t, struct bytes identity, bool is_failure)
{
    uint64_t hash = bytes_hash(identity, 0);
    HASH_EACH (&t->seen, hash, const struct seen, link, known)
        if (known->is_failure == is_failure &&
            bytes_equal(bytes_of(known->identity, known->size), identity))
            return false;
    struct seen *seen =
        t->seen.count < TRACE_FILE_LINES_MAX ? malloc(sizeof(*seen) + identity.size) : NULL;
    if (!seen)
        return false;
    *seen = (struct seen){ .size = identity.size, .is_failure = is_failure };
    memcpy(seen->identity, identity.data, identity.size);
    hash_table_add(&t->seen, &seen->link, hash);
    return true;
}

static void add_lines(struct trace *t, const struct trace_line *lines, size_t count)
{
    if (open_once(t))
        trace_file_add(&t->file, lines, count);
    if (t->is_open && t->file.fd < 0)
        t->has_ended = true;
}

/* ---- notes ---- */

uint64_t trace_now(const struct trace *trace) { return trace ? clock_monotonic_ns() : 0; }

static void take_times(const struct trace *t, uint64_t wanted_ns, struct trace_line *line)
{
    uint64_t now = clock_monotonic_ns();
    line->wanted_us = wanted_ns > t->opened_ns ? (wanted_ns - t->opened_ns) / 1000u : 0;
    line->waited_us = now > wanted_ns ? (now - wanted_ns) / 1000u : 0;
}

static enum trace_tier tier_of(int tier)
{
    switch (tier) {
    case KILN_TIER_DISK: return TRACE_DISK;
    case KILN_TIER_PACKAGE: return TRACE_PACKAGE;
    case KILN_TIER_FLEET: return TRACE_FLEET;
    case KILN_TIER_COMPILED: return TRACE_COMPILED;
    default: return TRACE_HOT;
    }
}

void trace_plan_begin(const struct trace *trace, const struct problem *problem,
                      const struct trace_request *request, struct trace_plan *ret_plan)
{
    const struct bytes words[4] = { request->target, request->database_id, request->toolchain,
                                    request->solver };
    size_t size = 0, used = 0;
    char line[512];
    *ret_plan = (struct trace_plan){ 0 };
    if (!trace)
        return;
    problem_to_driver(problem, line, sizeof(line));
    for (size_t i = 0; i < 4; i++)
        size += words[i].size + 1;
    ret_plan->text = malloc(size + sizeof(line));
    for (size_t i = 0; ret_plan->text && i < 4; i++) {
        ret_plan->words[i] = bytes_of(ret_plan->text + used, words[i].size);
        if (words[i].size)
            memcpy(ret_plan->text + used, words[i].data, words[i].size);
        used += words[i].size;
        ret_plan->text[used++] = ' ';
    }
    if (ret_plan->text)
        memcpy(ret_plan->text + used, line, sizeof(line));
    ret_plan->is_prefetch = request->is_prefetch;
    ret_plan->wanted_ns = clock_monotonic_ns();
}

void trace_plan_done(struct trace_plan *asked)
{
    free(asked->text);
    *asked = (struct trace_plan){ 0 };
}

/* Adds the objects that the process uses for the first time.  Returns the slowest tier of all
 * objects. */
static enum trace_tier add_objects(struct trace *t, const struct plan_content *content,
                                   struct trace_line *lines, size_t *count)
{
    enum trace_tier slowest = TRACE_HOT;
    for (uint32_t i = 0; i < content->object_count; i++) {
        const struct plan_object *o = &content->objects[i];
        const enum trace_tier tier = tier_of(o->tier);
        slowest = tier > slowest ? tier : slowest;
        if (is_first_use(t, bytes_of(o->key.bytes, DIGEST_SIZE), false))
            lines[(*count)++] = (struct trace_line){ .kind = TRACE_OBJECT,
                                                     .tier = tier,
                                                     .compile_us = o->compile_ns / 1000u,
                                                     .key = bytes_of_text(o->hex) };
    }
    return slowest;
}

void trace_plan_end(struct trace *trace, const struct trace_plan *asked,
                    const struct kiln_plan *plan)
{
    struct trace_line lines[1 + LIMIT_PLAN_KERNELS] = { { .kind = TRACE_PLAN,
                                                          .tier = TRACE_FAILED,
                                                          .target = asked->words[0],
                                                          .database_id = asked->words[1],
                                                          .toolchain = asked->words[2],
                                                          .solver = asked->words[3] } };
    size_t count = 1;
    if (!trace || !asked->text)
        return;
    take_times(trace, asked->wanted_ns, &lines[0]);
    if (asked->is_prefetch)
        lines[0].waited_us = 0;
    const uint8_t *last = lines[0].solver.data + lines[0].solver.size;
    lines[0].rest = bytes_of_text((const char *)last + 1);
    pthread_mutex_lock(&trace->mutex);
    if (!trace->has_ended && is_first_use(trace, bytes_of_text(asked->text), !plan)) {
        if (plan)
            lines[0].tier = add_objects(trace, plan->content, lines, &count);
        add_lines(trace, lines, count);
    }
    pthread_mutex_unlock(&trace->mutex);
}

void trace_kernel(struct trace *trace, const struct trace_kernel *kernel)
{
    struct digest key;
    struct trace_line line = { .kind = kernel->is_own_library ? TRACE_COMPILE : TRACE_KERNEL,
                               .tier = kernel->tier,
                               .compile_us = kernel->compile_ns / 1000u,
                               .target = kernel->target };
    if (!trace || !kernel->key || !digest_from_hex(kernel->key, &key))
        return;
    line.key = bytes_of_text(kernel->key);
    take_times(trace, kernel->wanted_ns, &line);
    pthread_mutex_lock(&trace->mutex);
    if (!trace->has_ended &&
        is_first_use(trace, bytes_of(key.bytes, DIGEST_SIZE), kernel->tier == TRACE_FAILED))
        add_lines(trace, &line, 1);
    pthread_mutex_unlock(&trace->mutex);
}

enum trace_tier trace_tier_of(const struct kiln_kernel *kernel) { return tier_of(kernel->tier); }

void trace_answer(struct trace *trace, uint64_t wanted_ns, struct bytes target, const char *key,
                  const struct kiln_kernel *kernel)
{
    struct trace_kernel note = {
        .wanted_ns = wanted_ns, .target = target, .key = key, .tier = TRACE_FAILED
    };
    if (!trace)
        return;
    if (kernel) {
        note.key = kernel->content->hex;
        note.tier = tier_of(kernel->tier);
        note.compile_ns = kernel->content->compile_ns;
    }
    trace_kernel(trace, &note);
}
