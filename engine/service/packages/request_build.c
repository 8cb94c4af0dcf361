/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "engine/service/kernels/toolchain_waits.h"
#include "engine/service/packages/build.h"
#include "engine/service/requests/admin.h"
#include "engine/solver/conv_generic.h"

#include <stdio.h>
#include <string.h>

#define PROBLEMS_MAX 20000u
/* Number of kernels that are charged for each problem at first. Further kernels are charged once
 * they are known. */
#define KERNELS_A_PROBLEM 2

static const struct admin_member build_members[] = {
    { "target", MEMBER_TEXT },
    { "database_id", MEMBER_TEXT },
    { "format", MEMBER_TEXT },
    { "toolchain", MEMBER_TEXT },
    { "records", MEMBER_FLAG },
    { "generic", MEMBER_FLAG },
    { 0 },
};

/* Makes space for |count| problems, and for their kernels. */
static enum kiln_code reserve(struct build *b, size_t count, struct kiln_err *err)
{
    b->problem_count = count;
    b->capacity = b->charged_items = count * KERNELS_A_PROBLEM + LIMIT_PLAN_KERNELS;
    uint64_t bytes =
        b->capacity * BUILD_ITEM_BYTES + count * PROBLEM_WIRE_SIZE + count * sizeof(*b->choices);
    enum kiln_code rc = deferred_charge(&b->base, bytes, err);
    if (rc)
        return kiln_while(err, "keeping %zu problems", count);
    b->items = calloc(b->capacity, sizeof(*b->items));
    b->choices = calloc(count, sizeof(*b->choices));
    if (!b->items || !b->choices)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep %zu problems", count);
    return KILN_OK;
}

/* Reads the problems from |fd|, which must be a sealed memfd, so that nobody can change or truncate
 * the file meanwhile. */
static enum kiln_code read_problems(struct build *b, int fd, struct kiln_err *err)
{
    if (!fs_is_sealed(fd))
        return kiln_fail(err, KILN_INVALID, "the problems must come as a sealed memory file");
    enum kiln_code rc = fs_read_fd(fd, PROBLEMS_MAX * PROBLEM_WIRE_SIZE, &b->problems, err);
    if (rc)
        return kiln_while(err, "reading the problems (at most %u)", PROBLEMS_MAX);
    size_t size = b->problems.size;
    if (size == 0 || size % PROBLEM_WIRE_SIZE)
        return kiln_fail(err, KILN_INVALID, "a file of %zu bytes is not a list of problems", size);
    return reserve(b, size / PROBLEM_WIRE_SIZE, err);
}

/* Takes problems and perf configs that need all generic kernels. */
static enum kiln_code take_samples(struct build *b, struct kiln_err *err)
{
    uint32_t count = conv_generic_samples(&b->target);
    enum kiln_code rc = reserve(b, count, err);
    for (uint32_t i = 0; !rc && i < count; i++) {
        struct generic_sample sample = conv_generic_sample(i);
        struct plan_choice *choice = &b->choices[i];
        problem_write(&b->problems, &sample.problem);
        snprintf(choice->config, sizeof(choice->config), "%s", sample.config);
        choice->source = PLAN_SOURCE_FORCED;
        choice->chosen = (struct solver_choice){ bytes_of_text(solver_conv_generic.name),
                                                 bytes_of_text(choice->config) };
    }
    if (!rc && b->problems.failed)
        rc = kiln_fail(err, KILN_NO_MEMORY, "cannot keep the samples of generic kernels");
    return rc;
}

/* Takes the problems of |caller|'s file or, if it asks for generic kernels, their samples. */
static enum kiln_code take_problems(struct build *b, const struct caller *caller,
                                    struct kiln_err *err)
{
    b->is_generic = json_get_bool(b->base.question, "generic", false);
    if (b->is_generic &&
        (caller->file_count > 0 || json_get_bool(b->base.question, "records", false)))
        return kiln_fail(err, KILN_INVALID,
                         "a package of generic kernels takes neither problems nor records");
    if (!b->is_generic && caller->file_count != 1)
        return kiln_fail(err, KILN_INVALID, "the request needs one file with the problems");
    return b->is_generic ? take_samples(b, err) : read_problems(b, caller->files[0], err);
}

static enum kiln_code check_question(struct build *b, struct kiln_err *err)
{
    const struct json *q = b->base.question;
    const char *format = json_get_text(q, "format", "kdb");
    const char *id = json_get_text(q, "database_id", "");
    b->format = strcmp(format, "kiln") == 0 ? PACKAGE_KILN : PACKAGE_KDB;
    if (b->format == PACKAGE_KDB && strcmp(format, "kdb") != 0)
        return kiln_fail(err, KILN_INVALID, "'%.40s' is not a package format: give kdb or kiln",
                         format);
    enum kiln_code rc = plan_target_take(
        CAPABILITIES_HERE, bytes_of_text(json_get_text(q, "target", "")), &b->target, err);
    return rc ? rc : plan_ids_take(&b->target, bytes_of_text(id), &b->ids, err);
}

static enum kiln_code ask_for_toolchain(struct deferred *d)
{
    struct build *b = build_of(d);
    const char *forced = json_get_text(d->question, "toolchain", "");
    const struct toolchain *tc = NULL;
    enum kiln_code rc = toolchains_resolve(d, &b->target, bytes_of_text(forced), &tc, &d->err);
    if (!rc)
        b->toolchain = *tc;
    return rc;
}

static enum kiln_code answer_build(struct deferred *d)
{
    build_begin(build_of(d));
    return KILN_OK;
}

static const struct toolchain_need build_need = { .ask = ask_for_toolchain,
                                                  .answer = answer_build };

enum kiln_code handle_package_build(struct engine *e, struct caller *caller,
                                    const struct frame_header *header, struct bytes body,
                                    struct kiln_err *err)
{
    if (e->draining)
        return kiln_fail(err, KILN_UNAVAILABLE, "kilnd is stopping: try again");
    struct build *b = build_create(e, caller, header->request_id, err);
    if (!b)
        return err->code;
    struct deferred *d = &b->base;
    buffer_init(&b->problems, PROBLEMS_MAX * PROBLEM_WIRE_SIZE);
    enum kiln_code rc = deferred_join(d, requests_group(e->requests, GROUP_BUILDS), err);
    if (!rc)
        rc = admin_read(header, body, build_members, &d->question, err);
    if (!rc)
        rc = check_question(b, err);
    if (!rc)
        rc = take_problems(b, caller, err);
    if (!rc && json_get_bool(d->question, "records", false))
        rc = build_want_records(b, err);
    rc = deferred_wait_or_destroy(d, rc);
    if (!rc)
        toolchains_need(d, &build_need, (struct bytes){ 0 });
    return rc;
}
