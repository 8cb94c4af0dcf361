/* SPDX-License-Identifier: MIT */
/*
 * The request why_miss: the nearest stored kernel to one that is wanted, and which parts of the key
 * differ.
 *
 * Asked with a key, the stored kernel of that key is what is wanted; asked with a problem, what a
 * plan for it would fetch.
 */
#include "common/driver_line.h"
#include "engine/compile/kernel_key.h"
#include "engine/service/admin.h"
#include "engine/service/program_job.h"

#include <stdio.h>
#include <string.h>

struct why {
    struct service_waiter waiter; /* first member */
    struct task task;
    struct engine *engine;
    struct json *question, *answer; /* owned */
    struct json *nearest;           /* owned until it is in the answer */
    uid_t uid;
    bool is_admin;
    struct digest key;
    bool found;
    struct kernel_record wanted; /* its texts lie in: */
    char *texts[5];              /* owned: target, toolchain, program, options, database id */
    enum kiln_code rc;
    struct kiln_err err;
};

static void why_destroy(struct why *w)
{
    service_waiter_remove(&w->waiter);
    json_destroy(w->question);
    json_destroy(w->answer);
    json_destroy(w->nearest);
    for (size_t i = 0; i < sizeof(w->texts) / sizeof(w->texts[0]); i++)
        free(w->texts[i]);
    free(w);
}

/* Takes over a copy of each text. */
static enum kiln_code want(struct why *w, const struct kernel_record *record)
{
    const char *texts[] = { record->target, record->toolchain, record->program, record->options,
                            record->database_id };
    w->wanted = *record;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        w->texts[i] = strdup(texts[i] ? texts[i] : "");
        if (!w->texts[i])
            return kiln_fail(&w->err, KILN_NO_MEMORY, "cannot keep a kernel's record");
    }
    w->wanted.target = w->texts[0];
    w->wanted.toolchain = w->texts[1];
    w->wanted.program = w->texts[2];
    w->wanted.options = w->texts[3];
    w->wanted.database_id = w->texts[4];
    w->wanted.package = w->wanted.version = "";
    return KILN_OK;
}

/* ---- comparing ---- */

struct comparison {
    struct json *same, *different; /* owned by the answer */
};

static void compare_texts(struct comparison *c, const char *part, const char *wanted,
                          const char *there)
{
    if (strcmp(wanted, there) == 0) {
        json_append(c->same, json_text(part));
        return;
    }
    struct json *j = json_object();
    json_set_text(j, "part", part);
    json_set_text(j, "wanted", wanted);
    json_set_text(j, "there", there);
    json_append(c->different, j);
}

/* Zeros: not known, so not compared. */
static void compare_digests(struct comparison *c, const char *part, const struct digest *wanted,
                            const struct digest *there)
{
    static const struct digest unknown;
    char a[DIGEST_HEX_SIZE], b[DIGEST_HEX_SIZE];
    if (digest_equal(wanted, &unknown) || digest_equal(there, &unknown))
        return;
    digest_to_hex(wanted, a);
    digest_to_hex(there, b);
    compare_texts(c, part, a, b);
}

static bool has_word(const char *words, const char *word, size_t length)
{
    for (const char *at = words; *at;) {
        size_t size = strcspn(at, " ");
        if (size == length && memcmp(at, word, length) == 0)
            return true;
        at += size + strspn(at + size, " ");
    }
    return false;
}

/* The options of |words| that |others| lacks. */
static void only_here(const char *words, const char *others, struct buffer *ret_text)
{
    for (const char *at = words; *at;) {
        size_t size = strcspn(at, " ");
        if (size && !has_word(others, at, size)) {
            if (ret_text->size)
                buffer_put_u8(ret_text, ' ');
            buffer_put(ret_text, at, size);
        }
        at += size + strspn(at + size, " ");
    }
    buffer_put_u8(ret_text, '\0');
}

/* Of many options only those that differ are worth reading. */
static void compare_options(struct comparison *c, const char *wanted, const char *there)
{
    BUFFER_AUTO struct buffer a, b;
    buffer_init(&a, LIMIT_OPTIONS_TEXT + 1);
    buffer_init(&b, LIMIT_OPTIONS_TEXT + 1);
    only_here(wanted, there, &a);
    only_here(there, wanted, &b);
    bool differ_in_words = !a.failed && !b.failed && (a.size > 1 || b.size > 1);
    if (differ_in_words)
        compare_texts(c, "options", (const char *)a.data, (const char *)b.data);
    else
        compare_texts(c, "options", wanted, there);
}

static void split_target(const char *target, char arch[LIMIT_TARGET_TEXT],
                         const char **ret_features)
{
    size_t length = strcspn(target, ":");
    bool is_opencl = strncmp(target, "opencl:", 7) == 0; /* has no features: whole */
    size_t arch_length = is_opencl ? strlen(target) : length;
    if (arch_length >= LIMIT_TARGET_TEXT)
        arch_length = LIMIT_TARGET_TEXT - 1;
    memcpy(arch, target, arch_length);
    arch[arch_length] = '\0';
    *ret_features = is_opencl ? "" : target + length;
}

static void compare_targets(struct comparison *c, const char *wanted, const char *there)
{
    char a[LIMIT_TARGET_TEXT], b[LIMIT_TARGET_TEXT];
    const char *wanted_features, *there_features;
    split_target(wanted, a, &wanted_features);
    split_target(there, b, &there_features);
    compare_texts(c, "target", a, b);
    compare_texts(c, "features", wanted_features, there_features);
}

static void compare_one(void *context, const struct kernel_record *there)
{
    struct why *w = context;
    const struct kernel_record *wanted = &w->wanted;
    char hex[DIGEST_HEX_SIZE];
    if (digest_equal(&there->key, &w->key))
        return;
    struct comparison c = { .same = json_array(), .different = json_array() };
    compare_texts(&c, "program", wanted->program, there->program);
    compare_targets(&c, wanted->target, there->target);
    compare_texts(&c, "compute units", wanted->database_id, there->database_id);
    compare_texts(&c, "toolchain", wanted->toolchain, there->toolchain);
    compare_digests(&c, "toolchain version", &wanted->toolchain_id, &there->toolchain_id);
    compare_options(&c, wanted->options, there->options);
    compare_digests(&c, "source", &wanted->source_id, &there->source_id);
    compare_digests(&c, "headers", &wanted->headers_id, &there->headers_id);
    struct json *j = json_object();
    digest_to_hex(&there->key, hex);
    json_set_text(j, "key", hex);
    json_set(j, "same", c.same);
    json_set(j, "different", c.different);
    json_append(w->nearest, j);
}

/* ---- on a lane ---- */

static void take_stored(void *context, const struct kernel_record *record)
{
    struct why *w = context;
    bool visible = !record->is_private || record->uid == (uint32_t)w->uid || w->is_admin;
    w->found = visible;
    if (visible && !w->wanted.program)
        w->rc = want(w, record);
}

static const char *sentence_of(const struct why *w)
{
    if (w->found)
        return "it is in the store: a fetch of it is a hit";
    if (!w->wanted.program)
        return "no stored kernel has this key, and what it was made from is not known: ask with "
               "the "
               "problem";
    return json_count(w->nearest) ? "it is not in the store; the nearest that are there differ"
                                  : "it is not in the store, and nothing like it is";
}

static void why_work(struct task *task)
{
    struct why *w = (struct why *)(void *)((char *)task - offsetof(struct why, task));
    struct kernel_store *store = w->engine->store;
    char hex[DIGEST_HEX_SIZE];
    enum kiln_code rc = kernel_store_show(store, &w->key, take_stored, w, &w->err);
    if (rc == KILN_NOT_FOUND)
        rc = KILN_OK;
    if (!rc && !w->rc && w->wanted.program)
        rc = kernel_store_nearest(store, &w->wanted, (uint32_t)w->uid, compare_one, w, &w->err);
    if (rc && rc != KILN_NOT_FOUND)
        w->rc = rc;
    digest_to_hex(&w->key, hex);
    json_set_text(w->answer, "key", hex);
    json_set_bool(w->answer, "found", w->found);
    json_set_text(w->answer, "sentence", sentence_of(w));
    json_set(w->answer, "nearest", KILN_TAKE(w->nearest));
}

static void why_done(struct task *task)
{
    struct why *w = (struct why *)(void *)((char *)task - offsetof(struct why, task));
    struct engine *e = w->engine;
    engine_task_ended(e);
    struct caller *caller = w->waiter.caller;
    uint64_t id = w->waiter.request_id;
    service_waiter_remove(&w->waiter);
    if (caller && w->rc)
        service_refuse(e, caller, id, &w->err, NULL);
    else if (caller)
        admin_send(e, caller, id, w->answer, 0);
    why_destroy(w);
}

/* ---- the question ---- */

static const struct admin_member why_members[] = {
    { "key", MEMBER_TEXT },       { "problem", MEMBER_TEXT },     { "target", MEMBER_TEXT },
    { "toolchain", MEMBER_TEXT }, { "database_id", MEMBER_TEXT }, { 0 },
};

static enum kiln_code want_program(struct why *w, const struct solution_program *program,
                                   const struct target *target, const struct toolchain *tc,
                                   struct kiln_err *err)
{
    PROGRAM_JOB_AUTO struct program_job p = { 0 };
    enum kiln_code rc = program_job_make(program, target, tc, &p, err);
    if (rc)
        return rc;
    KILN_AUTO(mem) char *options = bytes_to_text(p.job.options);
    const struct kernel_record record = {
        .toolchain_id = tc->identity,
        .source_id = kernel_source_id(&p.job),
        .headers_id = kernel_headers_id(&p.job),
        .target = target->text,
        .toolchain = tc->name,
        .program = program->name,
        .options = options ? options : "",
    };
    w->key = kernel_key(&p.job, &tc->identity);
    rc = want(w, &record);
    *err = w->err;
    return rc;
}

static enum kiln_code want_problem(struct why *w, struct kiln_err *err)
{
    const struct json *q = w->question;
    struct driver_line line;
    struct problem problem;
    struct target target;
    const struct toolchain *tc = NULL;
    enum kiln_code rc =
        driver_line_parse(bytes_of_text(json_get_text(q, "problem", "")), &line, err);
    if (rc == KILN_NOT_FOUND || (!rc && !driver_line_problem(&line, 0, &problem)))
        rc = kiln_fail(err, KILN_INVALID, "the line states no problem");
    if (!rc)
        rc = problem_check(&problem, err);
    if (!rc)
        rc = target_parse(bytes_of_text(json_get_text(q, "target", "")), &target, err);
    KILN_AUTO(mem) struct solution *s = calloc(1, sizeof(*s));
    if (!rc && !s)
        rc = kiln_fail(err, KILN_NO_MEMORY, "cannot plan the problem");
    if (!rc)
        rc = solver_solve(&problem, &target, (struct bytes){ 0 }, s, err);
    if (!rc)
        rc = toolchains_resolve(w->engine, w->uid, &target,
                                bytes_of_text(json_get_text(q, "toolchain", "")), &tc, err);
    return rc ? rc : want_program(w, &s->programs[0], &target, tc, err);
}

static enum kiln_code want_what_is_asked(struct why *w, struct kiln_err *err)
{
    const char *key = json_get_text(w->question, "key", NULL);
    bool problem = json_get(w->question, "problem") != NULL;
    if (!key == !problem)
        return kiln_fail(err, KILN_INVALID, "why is what missing? give a key, or a problem");
    if (problem)
        return want_problem(w, err);
    if (!digest_from_hex(key, &w->key))
        return kiln_fail(err, KILN_INVALID, "'%.70s' is not a key: 64 hexadecimal digits", key);
    return KILN_OK;
}

static void cancel_why(struct service_waiter *w) { service_waiter_remove(w); } /* freed in done */

enum kiln_code handle_why_miss(struct engine *e, struct caller *caller,
                               const struct frame_header *header, struct bytes body,
                               struct kiln_err *err)
{
    struct why *w = calloc(1, sizeof(*w));
    if (!w)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request");
    w->engine = e;
    w->uid = caller->uid;
    w->is_admin = caller->role == ROLE_ADMIN;
    w->answer = json_object();
    w->nearest = json_array();
    w->err = KILN_ERR_INIT;
    enum kiln_code rc = admin_read(header, body, why_members, &w->question, err);
    if (!rc)
        rc = want_what_is_asked(w, err);
    if (rc) {
        why_destroy(w);
        return rc == KILN_BUSY ? toolchains_park(e, caller, header, body, err) : rc;
    }
    w->task = (struct task){ .work = why_work, .done = why_done };
    service_waiter_add(&w->waiter, e, caller, header->request_id, cancel_why);
    engine_run(e, LANE_READ, &w->task);
    return KILN_OK;
}
