/* SPDX-License-Identifier: MIT */
/*
 * The request why_miss: the nearest stored kernel to one that is wanted, and which parts of the key
 * differ.
 *
 * Asked with a key, the stored kernel of that key is what is wanted; asked with a problem, what a
 * plan for it would fetch: of several programs the first that is missing; asked with MIOpen's name
 * for it, what was imported or lies in packages under that.
 */
#include "common/driver_line.h"
#include "engine/compile/code_object.h"
#include "engine/compile/kernel_key.h"
#include "engine/service/kernels/alias.h"
#include "engine/service/kernels/program_job.h"
#include "engine/service/requests/admin.h"
#include "engine/service/requests/plan_choose.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/store/kernel_name.h"

#include <stdio.h>
#include <string.h>

struct wanted_program {
    struct digest key;
    struct kernel_record record; /* its texts are static, why's, or: */
    char *options;               /* owned */
    struct buffer name, args;    /* how packages and imported caches know it */
    char *name_text, *args_text; /* owned: the same */
};

struct known_toolchain {
    struct digest identity;
    char version[64];
};

struct why {
    struct deferred base; /* first member; in the group of all administrative requests */
    struct json *nearest; /* owned until it is in the answer */
    struct target target;
    struct toolchain toolchain; /* a copy; without a compiler only its name, "package" */
    char database_id[DATABASE_ID_MOST];
    bool use_packages;
    struct kiln_err why_not_compile; /* code not OK: no compiler here can do it */
    bool by_name;                    /* the one program is MIOpen's name for it */
    uint32_t program_count;          /* 0: asked by key */
    struct wanted_program programs[LIMIT_PLAN_KERNELS];
    struct digest key;
    bool found;
    char package[PACKAGE_NAME_MOST];   /* which has it; "": none */
    char elsewhere[PACKAGE_NAME_MOST]; /* which has it for other compute units; "": none */
    char elsewhere_id[DATABASE_ID_MOST];
    struct known_toolchain here[TOOLCHAINS_MOST];
    size_t here_count;
    bool namesakes_told;                  /* what was imported as |missing| is among the nearest */
    const struct wanted_program *missing; /* of |programs|: what the nearest are compared with */
    struct kernel_record wanted;          /* its texts lie in: */
    char *texts[5]; /* owned: target, toolchain, program, options, database id */
};

static void release_why(struct deferred *d)
{
    struct why *w = (struct why *)d;
    json_destroy(w->nearest);
    for (size_t i = 0; i < sizeof(w->texts) / sizeof(w->texts[0]); i++)
        free(w->texts[i]);
    for (uint32_t i = 0; i < w->program_count; i++) {
        free(w->programs[i].options);
        free(w->programs[i].name_text);
        free(w->programs[i].args_text);
        buffer_done(&w->programs[i].name);
        buffer_done(&w->programs[i].args);
    }
}

static enum kiln_code want(struct why *w, const struct kernel_record *record)
{
    const char *texts[] = { record->target, record->toolchain, record->program, record->options,
                            record->database_id };
    w->wanted = *record;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        w->texts[i] = strdup(texts[i] ? texts[i] : "");
        if (!w->texts[i])
            return kiln_fail(&w->base.err, KILN_NO_MEMORY, "cannot keep a kernel's record");
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

#define SHORT_DIGEST 12 /* digits: to tell two apart by eye */

/* Zeros: not known, so not compared. */
static bool are_known(const struct digest *a, const struct digest *b)
{
    static const struct digest unknown;
    return !digest_equal(a, &unknown) && !digest_equal(b, &unknown);
}

static void compare_digests(struct comparison *c, const char *part, const struct digest *wanted,
                            const struct digest *there)
{
    char a[DIGEST_HEX_SIZE], b[DIGEST_HEX_SIZE];
    if (!are_known(wanted, there))
        return;
    digest_to_hex(wanted, a);
    digest_to_hex(there, b);
    a[SHORT_DIGEST] = b[SHORT_DIGEST] = '\0';
    compare_texts(c, part, a, b);
}

/* "AMD clang version 15.0.0 (1f2e3d4c5b6a)"; of one that is not here any more nothing but its
 * identity is known. */
static void show_version(const struct why *w, const struct digest *identity, char text[128])
{
    char hex[DIGEST_HEX_SIZE];
    const char *version = "not here any more";
    digest_to_hex(identity, hex);
    for (size_t i = 0; i < w->here_count; i++) {
        if (digest_equal(&w->here[i].identity, identity))
            version = w->here[i].version;
    }
    snprintf(text, 128, "%s (%.*s)", version, SHORT_DIGEST, hex);
}

static void compare_versions(const struct why *w, struct comparison *c,
                             const struct kernel_record *there)
{
    char a[128], b[128];
    if (!are_known(&w->wanted.toolchain_id, &there->toolchain_id))
        return;
    show_version(w, &w->wanted.toolchain_id, a);
    show_version(w, &there->toolchain_id, b);
    compare_texts(c, "toolchain version", a, b);
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

/* A kernel of MIOpen's is known by its name, arguments and device; what compiled it is not known.
 * "gfx906_60@3.2.0" is the device and the version of MIOpen. */
static void compare_names(struct comparison *c, const char *const wanted[3],
                          const struct kernel_record *there)
{
    size_t a = strcspn(wanted[2], "@"), b = strcspn(there->database_id, "@");
    char a_id[DATABASE_ID_MOST], b_id[DATABASE_ID_MOST];
    snprintf(a_id, sizeof(a_id), "%.*s", (int)a, wanted[2]);
    snprintf(b_id, sizeof(b_id), "%.*s", (int)b, there->database_id);
    compare_texts(c, "program", wanted[0], there->program);
    compare_texts(c, "compute units", a_id, b_id);
    if (wanted[2][a] || there->database_id[b])
        compare_texts(c, "MIOpen version", wanted[2][a] ? wanted[2] + a + 1 : "",
                      there->database_id[b] ? there->database_id + b + 1 : "");
    compare_options(c, wanted[1], there->options);
}

static void compare_made(const struct why *w, struct comparison *c,
                         const struct kernel_record *there)
{
    const struct kernel_record *wanted = &w->wanted;
    compare_texts(c, "program", wanted->program, there->program);
    compare_targets(c, wanted->target, there->target);
    compare_texts(c, "toolchain", wanted->toolchain, there->toolchain);
    compare_versions(w, c, there);
    compare_options(c, wanted->options, there->options);
    compare_digests(c, "source", &wanted->source_id, &there->source_id);
    compare_digests(c, "headers", &wanted->headers_id, &there->headers_id);
}

/* What it is called by those who ask for it by name; false when it has no such name. */
static bool name_wanted(const struct why *w, const char *ret_names[3])
{
    const struct wanted_program *p = w->missing;
    if (!p && !w->wanted.database_id[0])
        return false;
    ret_names[0] = p ? p->name_text : w->wanted.program;
    ret_names[1] = p ? p->args_text : w->wanted.options;
    ret_names[2] = p && !w->by_name ? w->database_id : w->wanted.database_id;
    return true;
}

static bool is_told(const struct why *w, const struct kernel_record *there)
{
    return w->namesakes_told && strcmp(there->program, w->missing->name_text) == 0;
}

static void compare_one(void *context, const struct kernel_record *there)
{
    struct why *w = context;
    const char *names[3] = { "", "", "" };
    char hex[DIGEST_HEX_SIZE];
    bool is_named = there->database_id[0];
    bool made = !w->by_name && (w->missing || !w->wanted.database_id[0]);
    bool comparable = is_named ? name_wanted(w, names) && !is_told(w, there) : made;
    if (digest_equal(&there->key, &w->key) || !comparable)
        return;
    struct comparison c = { .same = json_array(), .different = json_array() };
    if (is_named)
        compare_names(&c, names, there);
    else
        compare_made(w, &c, there);
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
    bool visible = !record->is_private || record->uid == (uint32_t)w->base.uid || w->base.is_admin;
    w->found = visible;
    if (visible && !w->program_count)
        w->base.rc = want(w, record);
}

/* As a plan takes it: a row for the same arch whose features are others is a miss. */
static void look_into_packages(struct why *w, const struct wanted_program *p)
{
    struct package_set *packages = w->base.engine->packages;
    struct package_found there = { 0 };
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, LIMIT_CODE_OBJECT);
    bool hit = !package_set_find_key(packages, &w->key, &raw, &there, &w->base.err);
    if (!hit && p && w->use_packages) {
        raw.size = 0;
        hit =
            !package_set_find_named(packages, bytes_of_text(w->database_id), buffer_view(&p->name),
                                    buffer_view(&p->args), &raw, &there, &w->base.err) &&
            (w->by_name || code_object_suits(buffer_view(&raw), &w->target));
    }
    w->base.err = KILN_ERR_INIT;
    if (!hit && p && !w->elsewhere[0] &&
        package_set_find_elsewhere(packages, bytes_of_text(w->database_id), buffer_view(&p->name),
                                   buffer_view(&p->args), w->elsewhere, w->elsewhere_id))
        w->elsewhere[0] = '\0';
    if (!hit)
        return;
    w->found = true;
    memcpy(w->package, there.package, sizeof(w->package));
}

/* As a fetch by name: the asker's own, then everyone's, then those of the only version. */
static enum kiln_code look_by_name(struct why *w, const struct wanted_program *p)
{
    struct kernel_store *store = w->base.engine->store;
    const uint64_t scopes[] = { w->base.uid, KERNEL_SCOPE_EVERYONE };
    char only[KERNEL_VERSIONED_ID_MOST] = "";
    const char *given = p->record.database_id;
    if (!strchr(given, '@') && kernel_store_only_version(store, (uint32_t)w->base.uid,
                                                         bytes_of_text(given), only, &w->base.err))
        only[0] = '\0';
    const char *const ids[] = { given, only };
    enum kiln_code rc = KILN_NOT_FOUND;
    for (size_t i = 0; rc == KILN_NOT_FOUND && i < 4; i++) {
        const char *id = ids[i / 2];
        struct digest key = kernel_name_key(scopes[i % 2], bytes_of_text(id), buffer_view(&p->name),
                                            buffer_view(&p->args));
        if (id[0])
            rc = kernel_store_show(store, &key, take_stored, w, &w->base.err);
        if (!rc)
            w->key = key;
    }
    return rc;
}

static enum kiln_code look_for(struct why *w, const struct wanted_program *p)
{
    enum kiln_code rc = w->by_name && p ? look_by_name(w, p)
                                        : kernel_store_show(w->base.engine->store, &w->key,
                                                            take_stored, w, &w->base.err);
    if (rc && rc != KILN_NOT_FOUND)
        return rc;
    if (!w->found)
        look_into_packages(w, p);
    return w->base.rc;
}

/* The first that is missing; when none is, the first. */
static enum kiln_code look_for_programs(struct why *w)
{
    uint32_t index = 0;
    w->found = true;
    for (uint32_t i = 0; w->found && i < w->program_count; i++) {
        w->found = false;
        w->key = w->programs[i].key;
        enum kiln_code rc = look_for(w, &w->programs[i]);
        if (rc)
            return rc;
        index = w->found ? 0 : i;
    }
    w->missing = &w->programs[index];
    if (!w->by_name)
        w->key = w->programs[index].key;
    return want(w, &w->programs[index].record);
}

static void write_sentence(const struct why *w, char *ret_text, size_t size)
{
    if (w->package[0])
        snprintf(ret_text, size, "an installed package has it (%s): a fetch of it is a hit",
                 w->package);
    else if (w->found)
        snprintf(ret_text, size, "it is in the store: a fetch of it is a hit");
    else if (w->elsewhere[0])
        snprintf(ret_text, size,
                 "it is not in the store, and no package for %s has it; one for other compute "
                 "units has it, which is not asked, as MIOpen asks none: %s, for %s",
                 w->database_id, w->elsewhere, w->elsewhere_id);
    else if (!w->wanted.program)
        snprintf(ret_text, size,
                 "no stored kernel has this key, and what it was made from is not known: ask with "
                 "the problem");
    else if (w->why_not_compile.code)
        snprintf(ret_text, size, "no package has it, and it cannot be compiled: %s",
                 w->why_not_compile.text);
    else if (json_count(w->nearest))
        snprintf(ret_text, size, "it is not in the store; the nearest that are there differ");
    else
        snprintf(ret_text, size, "it is not in the store, and nothing like it is");
}

static void name_elsewhere(struct why *w)
{
    if (w->found || !w->elsewhere[0])
        return;
    struct comparison c = { .same = json_array(), .different = json_array() };
    json_append(c.same, json_text("program"));
    json_append(c.same, json_text("options"));
    compare_texts(&c, "compute units", w->database_id, w->elsewhere_id);
    struct json *j = json_object();
    json_set_text(j, "package", w->elsewhere);
    json_set(j, "same", c.same);
    json_set(j, "different", c.different);
    json_append(w->nearest, j);
}

static void compare_namesake(void *context, const struct kernel_record *there)
{
    const struct why *w = context;
    if (there->database_id[0] && strcmp(there->program, w->missing->name_text) == 0)
        compare_one(context, there);
}

/* What was imported under the name that packages have for it. */
static enum kiln_code find_namesakes(struct why *w)
{
    const struct wanted_program *p = w->missing;
    if (!p || w->by_name || w->found)
        return KILN_OK;
    const struct kernel_record named = { .program = p->name_text,
                                         .options = p->args_text,
                                         .database_id = w->database_id };
    enum kiln_code rc = kernel_store_nearest(w->base.engine->store, &named, (uint32_t)w->base.uid,
                                             compare_namesake, w, &w->base.err);
    w->namesakes_told = true;
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

static void why_work(struct deferred *d)
{
    struct why *w = (struct why *)d;
    char hex[DIGEST_HEX_SIZE], sentence[1024];
    enum kiln_code rc = w->program_count ? look_for_programs(w) : look_for(w, NULL);
    name_elsewhere(w);
    if (!rc)
        rc = find_namesakes(w);
    if (!rc && w->wanted.program)
        rc = kernel_store_nearest(w->base.engine->store, &w->wanted, (uint32_t)w->base.uid,
                                  compare_one, w, &w->base.err);
    if (rc && rc != KILN_NOT_FOUND)
        w->base.rc = rc;
    digest_to_hex(&w->key, hex);
    write_sentence(w, sentence, sizeof(sentence));
    json_set_text(w->base.answer, "key", hex);
    json_set_bool(w->base.answer, "found", w->found);
    if (w->found)
        json_set_text(w->base.answer, "tier", tier_name(w->package[0] ? TIER_PACKAGE : TIER_DISK));
    json_set_text(w->base.answer, "sentence", sentence);
    json_set(w->base.answer, "nearest", KILN_TAKE(w->nearest));
}

static const struct deferred_kind deferred_why = { .size = sizeof(struct why),
                                                   .release = release_why };
static const struct deferred_step why_step = { .lane = LANE_READ, .work = why_work };

/* ---- the question ---- */

static const struct admin_member why_members[] = {
    { "key", MEMBER_TEXT },    { "problem", MEMBER_TEXT },     { "name", MEMBER_TEXT },
    { "args", MEMBER_TEXT },   { "target", MEMBER_TEXT },      { "toolchain", MEMBER_TEXT },
    { "solver", MEMBER_TEXT }, { "database_id", MEMBER_TEXT }, { 0 },
};

static enum kiln_code keep_name(struct wanted_program *p, struct kiln_err *err)
{
    p->name_text = bytes_to_text(buffer_view(&p->name));
    p->args_text = bytes_to_text(buffer_view(&p->args));
    return p->name_text && p->args_text
               ? KILN_OK
               : kiln_fail(err, KILN_NO_MEMORY, "cannot keep a kernel's name");
}

static enum kiln_code want_program(struct why *w, const struct solution_program *program,
                                   struct kiln_err *err)
{
    const struct toolchain *tc = &w->toolchain;
    struct wanted_program *p = &w->programs[w->program_count++];
    buffer_init(&p->name, LIMIT_OPTIONS_TEXT);
    buffer_init(&p->args, 2 * LIMIT_OPTIONS_TEXT);
    PROGRAM_JOB_AUTO struct program_job job = { 0 };
    enum kiln_code rc = program_job_make(program, &w->target, tc, &job, err);
    if (rc)
        return rc;
    const struct package_source source = program_job_source(&job.job);
    rc = package_kernel_name(&source, &p->name, err);
    if (!rc)
        rc = package_kernel_args(&source, &w->target, &p->args, err);
    if (!rc)
        rc = keep_name(p, err);
    p->options = bytes_to_text(job.job.options);
    if (!rc && !p->options)
        rc = kiln_fail(err, KILN_NO_MEMORY, "cannot keep a program's options");
    p->record = (struct kernel_record){
        .toolchain_id = tc->identity,
        .source_id = kernel_source_id(&job.job),
        .headers_id = kernel_headers_id(&job.job),
        .target = w->target.text,
        .toolchain = tc->name,
        .program = program->name,
        .options = p->options,
        .database_id = json_get_text(w->base.question, "database_id", ""),
    };
    const struct kernel_name name = { .database_id = bytes_of_text(w->database_id),
                                      .name = buffer_view(&p->name),
                                      .args = buffer_view(&p->args),
                                      .target = bytes_of_text(w->target.text) };
    p->key =
        w->why_not_compile.code ? kernel_name_packaged(&name) : kernel_key(&job.job, &tc->identity);
    return rc;
}

static enum kiln_code choose_toolchain(struct why *w, struct kiln_err *err)
{
    const char *forced = json_get_text(w->base.question, "toolchain", "");
    const struct toolchain *tc = NULL;
    w->use_packages =
        !forced[0] && package_set_covers(w->base.engine->packages, bytes_of_text(w->database_id));
    enum kiln_code rc = toolchains_resolve(w->base.engine, w->base.uid, &w->target,
                                           bytes_of_text(forced), &tc, err);
    if (!rc)
        w->toolchain = *tc;
    if (!rc || rc == KILN_BUSY || forced[0])
        return rc;
    w->why_not_compile = *err;
    *err = KILN_ERR_INIT;
    snprintf(w->toolchain.name, sizeof(w->toolchain.name), "package");
    return KILN_OK;
}

static enum kiln_code read_problem(const struct why *w, struct problem *ret_problem,
                                   struct kiln_err *err)
{
    struct driver_line line;
    enum kiln_code rc = driver_line_parse(
        bytes_of_text(json_get_text(w->base.question, "problem", "")), &line, err);
    if (rc == KILN_NOT_FOUND || (!rc && !driver_line_problem(&line, 0, ret_problem)))
        rc = kiln_fail(err, KILN_INVALID, "the line states no problem");
    return rc ? rc : problem_check(ret_problem, err);
}

/* As a plan of the caller's does. */
static enum kiln_code solve(struct why *w, const struct problem *problem, const char *device,
                            struct solution *s, struct kiln_err *err)
{
    char toolchain[PLAN_TOOLCHAIN_MOST] = "";
    struct plan_choice choice;
    if (!w->why_not_compile.code)
        plan_toolchain_write(&w->toolchain, toolchain);
    const struct plan_wish wish = { .problem = problem,
                                    .target = &w->target,
                                    .solver = bytes_of_text(
                                        json_get_text(w->base.question, "solver", "")),
                                    .database_id = device,
                                    .driver = "",
                                    .toolchain = toolchain,
                                    .uid = (uint32_t)w->base.uid };
    enum kiln_code rc = plan_choose(tuning_databases(w->base.engine), &wish, &choice, err);
    return rc ? rc : solver_solve(problem, &w->target, &choice.wish, s, err);
}

static enum kiln_code want_problem(struct why *w, struct kiln_err *err)
{
    struct problem problem;
    struct plan_ids ids;
    KILN_AUTO(mem) struct solution *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot plan the problem");
    enum kiln_code rc = read_problem(w, &problem, err);
    if (!rc)
        rc = plan_target_take(CAPABILITIES_HERE,
                              bytes_of_text(json_get_text(w->base.question, "target", "")),
                              &w->target, err);
    if (!rc)
        rc = plan_ids_take(&w->target,
                           bytes_of_text(json_get_text(w->base.question, "database_id", "")), &ids,
                           err);
    if (!rc) {
        memcpy(w->database_id, ids.package, sizeof(ids.package));
        rc = choose_toolchain(w, err);
    }
    if (!rc)
        rc = solve(w, &problem, ids.device, s, err);
    for (uint32_t i = 0; !rc && i < s->program_count; i++)
        rc = want_program(w, &s->programs[i], err);
    return rc;
}

static enum kiln_code want_name(struct why *w, struct kiln_err *err)
{
    const char *given = json_get_text(w->base.question, "database_id", "");
    struct bytes plain, version;
    struct database_id id;
    struct wanted_program *p = &w->programs[w->program_count++];
    buffer_init(&p->name, LIMIT_OPTIONS_TEXT);
    buffer_init(&p->args, LIMIT_OPTIONS_TEXT);
    w->by_name = w->use_packages = true;
    enum kiln_code rc = database_id_split(bytes_of_text(given), &plain, &version, err);
    if (!rc)
        rc = database_id_parse(plain, &id, err);
    if (rc || !database_id_write(&id, w->database_id))
        return rc ? kiln_while(err, "which device is it for")
                  : kiln_fail(err, KILN_INVALID, "the database id is too long");
    const char *name = json_get_text(w->base.question, "name", "");
    const char *args = json_get_text(w->base.question, "args", "");
    buffer_put(&p->name, name, strlen(name));
    buffer_put(&p->args, args, strlen(args));
    if (p->name.failed || p->args.failed)
        return kiln_fail(err, KILN_INVALID, "a kernel's name and arguments have at most %u bytes",
                         LIMIT_OPTIONS_TEXT);
    rc = keep_name(p, err);
    p->record = (struct kernel_record){ .program = p->name_text,
                                        .options = p->args_text,
                                        .database_id = given };
    w->key = kernel_name_key(w->base.uid, bytes_of_text(given), buffer_view(&p->name),
                             buffer_view(&p->args));
    return rc;
}

static enum kiln_code want_what_is_asked(struct why *w, struct kiln_err *err)
{
    const char *key = json_get_text(w->base.question, "key", NULL);
    bool problem = json_get(w->base.question, "problem"), name = json_get(w->base.question, "name");
    if ((key != NULL) + problem + name != 1)
        return kiln_fail(err, KILN_INVALID,
                         "why is what missing? give a key, or a problem, or a kernel's name with "
                         "its args and database_id");
    if (name)
        return want_name(w, err);
    if (problem)
        return want_problem(w, err);
    if (!digest_from_hex(key, &w->key))
        return kiln_fail(err, KILN_INVALID, "'%.70s' is not a key: 64 hexadecimal digits", key);
    return KILN_OK;
}

static void note_toolchains(struct why *w)
{
    const struct toolchain_table *table = w->base.engine->toolchains;
    for (size_t i = 0; i < toolchain_table_count(table) && i < TOOLCHAINS_MOST; i++) {
        const struct toolchain *tc = toolchain_table_at(table, i);
        struct known_toolchain *here = &w->here[w->here_count++];
        here->identity = tc->identity;
        snprintf(here->version, sizeof(here->version), "%.63s", tc->version);
    }
}

enum kiln_code handle_why_miss(struct engine *e, struct caller *caller,
                               const struct frame_header *header, struct bytes body,
                               struct kiln_err *err)
{
    struct why *w = deferred_create(&deferred_why, e, caller, header->request_id, err);
    if (!w)
        return err->code;
    w->base.answer = json_object();
    w->nearest = json_array();
    w->why_not_compile = KILN_ERR_INIT;
    note_toolchains(w);
    enum kiln_code rc = admin_read(header, body, why_members, &w->base.question, err);
    if (!rc)
        rc = deferred_join(&w->base, &e->requests->admin, err);
    if (rc) {
        deferred_destroy(&w->base);
        return rc;
    }
    rc = want_what_is_asked(w, err);
    if (rc) {
        deferred_destroy(&w->base);
        return rc == KILN_BUSY ? toolchains_wait(e, caller, header, body, err) : rc;
    }
    deferred_wait(&w->base);
    deferred_run(&w->base, &why_step);
    return KILN_OK;
}
