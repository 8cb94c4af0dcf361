/* SPDX-License-Identifier: MIT */
#include "libclient/plans/plan.h"

#include "common/miopen/tuning_text.h"
#include "libclient/kernels/fetch.h"
#include "libclient/real.h"
#include "libclient/sized.h"

#include <stdio.h>
#include <string.h>

/* ---- counting ---- */

void plan_destroy(struct kiln_plan *plan)
{
    if (!plan)
        return;
    struct plan_content *c = plan->content;
    if (atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < c->object_count; i++)
        kernel_destroy(c->objects[i].kernel);
    free(c);
}

struct kiln_plan *plan_again(struct kiln_plan *plan) { return &plan->content->again; }

static void ref_value(void *value) { kiln_plan_ref(value); }
static void unref_value(void *value) { plan_destroy(value); }
const struct answer_ops plan_value_ops = { .ref = ref_value, .unref = unref_value };

/* ---- reading ---- */

static enum kiln_code fail_damaged(struct failure *f, const char *what)
{
    return kiln_fail(&f->err, KILN_CORRUPT,
                     "kilnd's plan is damaged: %s: use matching versions of libkiln and kilnd",
                     what);
}

static bool is_name(struct bytes text)
{
    return text.size > 0 && !memchr(text.data, '\0', text.size);
}

static bool is_name_or_empty(struct bytes text) { return text.size == 0 || is_name(text); }

/* Reads the tensor maps of launch |l|, one for each argument of the kind ARGUMENT_TENSOR_MAP. */
static enum kiln_code read_maps(struct plan_content *c, struct plan_launch *l, struct reader *r,
                                struct failure *f)
{
    l->first_map = c->map_count;
    if (l->map_count > LIMIT_PLAN_MAPS - c->map_count)
        return fail_damaged(f, "too many tensor maps");
    for (uint32_t i = 0; i < l->map_count; i++) {
        struct kiln_err why = KILN_ERR_INIT;
        struct tensor_map *map = &c->maps[c->map_count++];
        *map = tensor_map_read(r);
        if (r->failed)
            return fail_damaged(f, "it ends within a tensor map");
        if (tensor_map_check(map, &why))
            return fail_damaged(f, why.text);
    }
    return KILN_OK;
}

static enum kiln_code read_arguments(struct plan_content *c, struct plan_launch *l,
                                     const struct message_plan_kernel *m, struct failure *f)
{
    if (m->argument_count > LIMIT_KERNEL_ARGUMENTS)
        return fail_damaged(f, "a kernel has too many arguments");
    struct reader r = reader_of(m->arguments);
    for (uint32_t i = 0; i < m->argument_count; i++) {
        l->arguments[i] = message_plan_argument_read(&r);
        if (l->arguments[i].kind > ARGUMENT_TENSOR_MAP)
            return fail_damaged(
                f, "an argument of unknown kind; use a libkiln that is as new as kilnd");
        l->map_count += l->arguments[i].kind == ARGUMENT_TENSOR_MAP;
    }
    enum kiln_code rc = r.failed ? KILN_OK : read_maps(c, l, &r, f);
    if (rc)
        return rc;
    if (r.failed || r.at != r.end)
        return fail_damaged(f, "arguments do not match their count");
    l->argument_count = m->argument_count;
    return KILN_OK;
}

static bool is_geometry(const struct message_plan_kernel *m)
{
    uint64_t items = (uint64_t)m->group_x * m->group_y;
    return m->grid_x && m->grid_y && m->grid_z && m->group_z && items && items <= UINT16_MAX &&
           items * m->group_z <= UINT16_MAX;
}

static enum kiln_code read_launch(struct plan_content *c, struct reader *kernels, char **text,
                                  struct failure *f)
{
    struct message_plan_kernel m = message_plan_kernel_read(kernels);
    struct plan_launch *l = &c->launches[c->launch_count];
    if (kernels->failed || !is_name(m.name))
        return fail_damaged(f, "a kernel without a name");
    if (m.object >= c->object_count)
        return fail_damaged(f, "a kernel of a missing code object");
    if (!is_geometry(&m))
        return fail_damaged(f, "an impossible launch geometry");
    *l = (struct plan_launch){ .name = bytes_pack_text(text, m.name),
                               .object = m.object,
                               .grid = { m.grid_x, m.grid_y, m.grid_z },
                               .group = { m.group_x, m.group_y, m.group_z },
                               .shared_bytes = m.shared_bytes };
    enum kiln_code rc = read_arguments(c, l, &m, f);
    if (!rc)
        c->launch_count++;
    return rc;
}

struct plan_reply {
    const struct reply *reply;
    const struct message_planned *message;
    bool without_objects;
    /* kilnd reported that an object failed; the reply itself is then valid */
    bool has_failed;
};

static enum kiln_code read_object(struct plan_content *c, struct plan_reply *p,
                                  const struct message_result *o, struct failure *f)
{
    struct plan_object *object = &c->objects[c->object_count];
    if (o->index != c->object_count)
        return fail_damaged(f, "its code objects are out of order");
    if (o->code) {
        p->has_failed = true;
        return failure_said(f, o->code, o->text, o->log);
    }
    if (o->tier > TIER_COMPILED || o->size == 0 || o->size > LIMIT_CODE_OBJECT)
        return fail_damaged(f, "a code object of impossible tier or size");
    object->kernel = NULL;
    enum kiln_code rc =
        p->without_objects ? KILN_OK : kernel_create(o, p->reply, &object->kernel, &f->err);
    if (rc)
        return rc;
    object->key = o->key;
    digest_to_hex(&o->key, object->hex);
    object->tier = o->tier;
    object->size = o->size;
    object->compile_ns = o->spent_ns;
    c->object_count++;
    return KILN_OK;
}

static enum kiln_code read_objects(struct plan_content *c, struct plan_reply *p, struct failure *f)
{
    struct reader r = reader_of(p->message->objects);
    for (uint32_t i = 0; i < p->message->object_count; i++) {
        struct message_result o = message_result_read(&r);
        if (r.failed)
            break;
        enum kiln_code rc = read_object(c, p, &o, f);
        if (rc)
            return rc;
    }
    if (r.failed || r.at != r.end)
        return fail_damaged(f, "code objects do not match their count");
    return KILN_OK;
}

static enum kiln_code read_launches(struct plan_content *c, const struct message_planned *m,
                                    char *text, struct failure *f)
{
    struct reader r = reader_of(m->kernels);
    for (uint32_t i = 0; i < m->kernel_count; i++) {
        enum kiln_code rc = read_launch(c, &r, &text, f);
        if (rc)
            return rc;
    }
    if (r.at != r.end)
        return fail_damaged(f, "kernels do not match their count");
    return KILN_OK;
}

static struct plan_content *make_content(const struct message_planned *m)
{
    size_t text = m->solver.size + m->config.size + m->toolchain.size + m->toolchain_identity.size +
                  4 + m->kernels.size + m->kernel_count;
    size_t align = _Alignof(struct plan_launch);
    size_t offset = (sizeof(struct plan_content) + text + align - 1) / align * align;
    struct plan_content *c = calloc(1, offset + m->kernel_count * sizeof(struct plan_launch));
    if (!c)
        return NULL;
    atomic_init(&c->references, 1);
    c->answer = (struct kiln_plan){ .content = c };
    c->again = (struct kiln_plan){ .content = c, .from_cache = true };
    c->workspace_size = m->workspace_size;
    c->plan_ns = m->plan_ns;
    c->source = m->source;
    c->expected_ms = real_of_bits(m->expected_ms);
    c->launches = (struct plan_launch *)((char *)c + offset);
    return c;
}

static enum kiln_code check_counts(const struct message_planned *m, struct failure *f)
{
    if (!is_name(m->solver) || !is_name(m->toolchain))
        return fail_damaged(f, "no solver or toolchain named");
    if (!is_name_or_empty(m->config) || m->config.size > TUNING_WORD_MAX ||
        !is_name_or_empty(m->toolchain_identity) || m->toolchain_identity.size > TUNING_WORD_MAX)
        return fail_damaged(f, "an impossible perf config or toolchain");
    if (m->source > PLAN_SOURCE_GENERIC || !real_is_fine(real_of_bits(m->expected_ms), 0))
        return fail_damaged(f, "an impossible source or expected time");
    if (m->kernel_count == 0 || m->kernel_count > LIMIT_PLAN_KERNELS)
        return fail_damaged(f, "an impossible number of kernels");
    if (m->object_count == 0 || m->object_count > LIMIT_PLAN_KERNELS)
        return fail_damaged(f, "an impossible number of code objects");
    return KILN_OK;
}

static enum kiln_code fill_content(struct plan_content *c, struct plan_reply *p, struct failure *f)
{
    const struct message_planned *m = p->message;
    char *text = c->text;
    c->solver = bytes_pack_text(&text, m->solver);
    c->config = bytes_pack_text(&text, m->config);
    c->toolchain = bytes_pack_text(&text, m->toolchain);
    c->toolchain_identity = bytes_pack_text(&text, m->toolchain_identity);
    enum kiln_code rc = read_objects(c, p, f);
    return rc ? rc : read_launches(c, m, text, f);
}

enum kiln_code plan_create(const struct reply *reply, const struct plan_question *question,
                           struct kiln_plan **ret_plan, bool *ret_damaged, struct failure *failure)
{
    struct reader r = reader_of(reply->body);
    struct message_planned m = message_planned_read(&r);
    *ret_damaged = true;
    if (reply->header->type != MESSAGE_planned || (reply->header->flags & FRAME_MORE) || r.failed ||
        r.at != r.end)
        return fail_damaged(failure, "it is not a whole 'planned' message");
    enum kiln_code rc = check_counts(&m, failure);
    if (rc)
        return rc;
    struct plan_content *c = make_content(&m);
    *ret_damaged = false;
    if (!c)
        return kiln_fail(&failure->err, KILN_NO_MEMORY, "no memory for a plan");
    __attribute__((cleanup(plan_auto))) struct kiln_plan *plan = &c->answer;
    c->problem = question->problem;
    snprintf(c->target, sizeof(c->target), "%.*s", (int)question->target.size,
             (const char *)question->target.data);
    struct plan_reply p = { .reply = reply,
                            .message = &m,
                            .without_objects = question->without_objects };
    rc = fill_content(c, &p, failure);
    if (rc) {
        *ret_damaged = rc == KILN_CORRUPT && !p.has_failed;
        return rc;
    }
    *ret_plan = KILN_TAKE(plan);
    return KILN_OK;
}

/* ---- public ---- */

struct kiln_plan *kiln_plan_ref(struct kiln_plan *plan)
{
    atomic_fetch_add_explicit(&plan->content->references, 1, memory_order_relaxed);
    return plan;
}

void kiln_plan_unref(struct kiln_plan *plan) { plan_destroy(plan); }
const char *kiln_plan_solver(const struct kiln_plan *plan) { return plan->content->solver; }
const char *kiln_plan_config(const struct kiln_plan *plan) { return plan->content->config; }
int kiln_plan_source(const struct kiln_plan *plan) { return plan->content->source; }
double kiln_plan_expected_ms(const struct kiln_plan *plan) { return plan->content->expected_ms; }
const char *kiln_plan_toolchain(const struct kiln_plan *plan) { return plan->content->toolchain; }
const char *kiln_plan_toolchain_identity(const struct kiln_plan *plan)
{
    return plan->content->toolchain_identity;
}
uint64_t kiln_plan_workspace(const struct kiln_plan *plan) { return plan->content->workspace_size; }
uint64_t kiln_plan_ns(const struct kiln_plan *plan) { return plan->content->plan_ns; }
unsigned kiln_plan_object_count(const struct kiln_plan *plan)
{
    return plan->content->object_count;
}
unsigned kiln_plan_launch_count(const struct kiln_plan *plan)
{
    return plan->content->launch_count;
}

static const struct plan_object *object_at(const struct kiln_plan *plan, unsigned index)
{
    return index < plan->content->object_count ? &plan->content->objects[index] : NULL;
}

struct kiln_kernel *kiln_plan_object(const struct kiln_plan *plan, unsigned index)
{
    const struct plan_object *o = object_at(plan, index);
    if (!o || !o->kernel)
        return NULL;
    return plan->from_cache ? kernel_again(o->kernel) : o->kernel;
}

const char *kiln_plan_object_key(const struct kiln_plan *plan, unsigned index)
{
    const struct plan_object *o = object_at(plan, index);
    return o ? o->hex : NULL;
}

int kiln_plan_object_tier(const struct kiln_plan *plan, unsigned index)
{
    const struct plan_object *o = object_at(plan, index);
    if (!o)
        return KILN_TIER_NONE;
    return plan->from_cache ? KILN_TIER_PROCESS : o->tier;
}

uint64_t kiln_plan_object_size(const struct kiln_plan *plan, unsigned index)
{
    const struct plan_object *o = object_at(plan, index);
    return o ? o->size : 0;
}

uint64_t kiln_plan_object_compile_ns(const struct kiln_plan *plan, unsigned index)
{
    const struct plan_object *o = object_at(plan, index);
    return o ? o->compile_ns : 0;
}

int kiln_plan_launch(const struct kiln_plan *plan, unsigned index,
                     struct kiln_plan_launch *ret_launch, struct kiln_error *err)
{
    if (!ret_launch || !sized_is_fine(ret_launch->size, SIZED_TO(struct kiln_plan_launch, group)))
        return error_argument(err, "kiln_plan_launch.size is not set: give it sizeof the struct");
    if (index >= plan->content->launch_count)
        return error_argument(err, "there is no launch %u: the plan has %u", index,
                              plan->content->launch_count);
    const struct plan_launch *l = &plan->content->launches[index];
    struct kiln_plan_launch reported = { .size = ret_launch->size,
                                         .kernel = l->name,
                                         .object = l->object,
                                         .shared_bytes = l->shared_bytes };
    memcpy(reported.grid, l->grid, sizeof(l->grid));
    memcpy(reported.group, l->group, sizeof(l->group));
    memcpy(ret_launch, &reported,
           reported.size < sizeof(reported) ? reported.size : sizeof(reported));
    return KILN_E_OK;
}
