/* SPDX-License-Identifier: MIT */
#include "common/miopen/driver_line.h"
#include "engine/compile/kernel_key.h"
#include "engine/service/kernels/program_job.h"
#include "engine/service/kernels/toolchain_waits.h"
#include "engine/service/requests/plan_choose.h"
#include "engine/service/requests/why.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/store/kernel_name.h"

#include <stdio.h>
#include <string.h>

static enum kiln_code keep_name(struct wanted_program *p, struct kiln_err *err)
{
    bool is_whole = !p->name.failed && !p->args.failed;
    p->name_text = bytes_to_text(buffer_view(&p->name));
    p->args_text = bytes_to_text(buffer_view(&p->args));
    return is_whole && p->name_text && p->args_text
               ? KILN_OK
               : kiln_fail(err, KILN_NO_MEMORY, "cannot keep a kernel's name");
}

static enum kiln_code add_program(struct why *w, const struct solution_program *program,
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
    if (!rc)
        why_look_in_fleet(w, program, p);
    return rc;
}

enum kiln_code why_ask_for_toolchain(struct deferred *d)
{
    struct why *w = (struct why *)d;
    const char *forced = json_get_text(d->question, "toolchain", "");
    const struct toolchain *tc = NULL;
    if (!json_get(d->question, "problem"))
        return KILN_OK;
    w->use_packages =
        !forced[0] && package_set_covers(d->engine->packages, bytes_of_text(w->database_id));
    enum kiln_code rc = toolchains_resolve(d, &w->target, bytes_of_text(forced), &tc, &d->err);
    if (!rc)
        w->toolchain = *tc;
    if (!rc || rc == KILN_BUSY || forced[0])
        return rc;
    w->why_not_compile = d->err;
    d->err = KILN_ERR_INIT;
    snprintf(w->toolchain.name, sizeof(w->toolchain.name), "package");
    return KILN_OK;
}

static enum kiln_code parse_problem(const struct why *w, struct problem *ret_problem,
                                    struct kiln_err *err)
{
    struct driver_line line;
    enum kiln_code rc = driver_line_parse(
        bytes_of_text(json_get_text(w->base.question, "problem", "")), &line, err);
    if (rc == KILN_NOT_FOUND || (!rc && !driver_line_problem(&line, 0, ret_problem)))
        rc = kiln_fail(err, KILN_INVALID, "the line states no problem");
    return rc ? rc : problem_check(ret_problem, err);
}

static enum kiln_code solve_problem(struct why *w, struct solution *s, struct kiln_err *err)
{
    char toolchain[PLAN_TOOLCHAIN_MAX] = "";
    struct plan_choice choice;
    if (!w->why_not_compile.code)
        plan_toolchain_write(&w->toolchain, toolchain);
    const struct plan_options options = { .problem = &w->problem,
                                          .target = &w->target,
                                          .solver = bytes_of_text(
                                              json_get_text(w->base.question, "solver", "")),
                                          .database_id = w->ids.device,
                                          .driver = "",
                                          .toolchain = toolchain,
                                          .uid = (uint32_t)w->base.uid };
    enum kiln_code rc = plan_choose(tuning_databases(w->base.engine), &options, &choice, err);
    return rc ? rc : solver_solve(&w->problem, &w->target, &choice.chosen, s, err);
}

enum kiln_code why_add_programs(struct why *w, struct kiln_err *err)
{
    if (!json_get(w->base.question, "problem"))
        return KILN_OK;
    KILN_AUTO(mem) struct solution *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot plan the problem");
    enum kiln_code rc = solve_problem(w, s, err);
    for (uint32_t i = 0; !rc && i < s->program_count; i++)
        rc = add_program(w, &s->programs[i], err);
    return rc;
}

static enum kiln_code read_problem_question(struct why *w, struct kiln_err *err)
{
    const struct json *q = w->base.question;
    enum kiln_code rc = parse_problem(w, &w->problem, err);
    if (!rc)
        rc = plan_target_take(CAPABILITIES_HERE, bytes_of_text(json_get_text(q, "target", "")),
                              &w->target, err);
    if (!rc)
        rc = plan_ids_take(&w->target, bytes_of_text(json_get_text(q, "database_id", "")), &w->ids,
                           err);
    memcpy(w->database_id, w->ids.package, sizeof(w->ids.package));
    return rc;
}

static enum kiln_code read_name_question(struct why *w, struct kiln_err *err)
{
    const char *given = json_get_text(w->base.question, "database_id", "");
    struct wanted_program *p = &w->programs[w->program_count++];
    struct kernel_name name = { 0 };
    buffer_init(&p->name, LIMIT_NAMED_TEXT);
    buffer_init(&p->args, LIMIT_NAMED_TEXT);
    w->by_name = w->use_packages = true;
    enum kiln_code rc = kernel_name_take(
        bytes_of_text(given), bytes_of_text(json_get_text(w->base.question, "name", "")),
        bytes_of_text(json_get_text(w->base.question, "args", "")), &name, err);
    if (rc)
        return rc;
    if (name.database_id.size >= DATABASE_ID_MAX)
        return kiln_fail(err, KILN_INVALID, "the database id '%.40s' is too long", given);
    memcpy(w->database_id, name.database_id.data, name.database_id.size);
    buffer_put(&p->name, name.name.data, name.name.size);
    buffer_put(&p->args, name.args.data, name.args.size);
    rc = keep_name(p, err);
    p->record = (struct kernel_record){ .program = p->name_text,
                                        .options = p->args_text,
                                        .database_id = given };
    p->key = kernel_name_key(w->base.uid, bytes_of_text(given), name.name, name.args);
    return rc;
}

enum kiln_code why_read_question(struct why *w, struct kiln_err *err)
{
    const char *key = json_get_text(w->base.question, "key", NULL);
    bool problem = json_get(w->base.question, "problem"), name = json_get(w->base.question, "name");
    if ((key != NULL) + problem + name != 1)
        return kiln_fail(err, KILN_INVALID,
                         "'why_miss' needs a key, or a problem, or a kernel's name with its args "
                         "and database_id");
    if (name)
        return read_name_question(w, err);
    if (problem)
        return read_problem_question(w, err);
    if (!digest_from_hex(key, &w->key))
        return kiln_fail(err, KILN_INVALID, "'%.70s' is not a key: 64 hexadecimal digits", key);
    return KILN_OK;
}
