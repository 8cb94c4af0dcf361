/* SPDX-License-Identifier: MIT */
/*
 * Runs: a plan's code objects loaded on a device, its kernels launched as the plan says.
 */
#include "common/target.h"
#include "libclient/device/device.h"
#include "libclient/failure.h"
#include "libclient/plan.h"

#include <kiln/run.h>
#include <string.h>

struct kiln_run {
    struct kiln_device *device;                        /* counted */
    struct kiln_plan *plan;                            /* counted */
    struct device_module *modules[LIMIT_PLAN_KERNELS]; /* owned; one a code object */
    size_t entries[LIMIT_PLAN_KERNELS]; /* of each launch: its number in its module */
};

static void kiln_run_free(struct kiln_run *run)
{
    if (!run)
        return;
    for (size_t i = 0; run->device && i < LIMIT_PLAN_KERNELS; i++)
        run->device->ops->unload(run->device, run->modules[i]);
    device_unref(run->device);
    plan_destroy(run->plan);
    free(run);
}

static void run_auto(struct kiln_run **run) { kiln_run_free(*run); }

/* ---- loading ---- */

static enum kiln_code load_object(struct kiln_run *run, uint32_t index, struct kiln_err *err)
{
    const struct plan_content *c = run->plan->content;
    const char *names[LIMIT_PLAN_KERNELS];
    size_t count = 0;
    for (uint32_t i = 0; i < c->launch_count; i++) {
        if (c->launches[i].object != index)
            continue;
        run->entries[i] = count;
        names[count++] = c->launches[i].name;
    }
    const struct kiln_kernel *kernel = c->objects[index].kernel;
    if (!kernel)
        return kiln_fail(err, KILN_INVALID,
                         "the plan came without code objects: ask for it without no_objects");
    struct bytes object = bytes_of(kiln_kernel_data(kernel), kiln_kernel_size(kernel));
    enum kiln_code rc =
        run->device->ops->load(run->device, object, names, count, &run->modules[index], err);
    return rc ? kiln_while(err, "loading kernel %.12s of %s", c->objects[index].hex, c->solver)
              : KILN_OK;
}

/* Targets that cannot be read are for the runtime to judge. */
static enum kiln_code check_target(const struct kiln_device *device, const struct kiln_plan *plan,
                                   struct kiln_err *err)
{
    struct target of_device, of_plan;
    struct kiln_err ignored = KILN_ERR_INIT;
    const char *text = plan->content->target;
    if (target_parse(bytes_of_text(device->target), &of_device, &ignored) ||
        target_parse(bytes_of_text(text), &of_plan, &ignored) ||
        strcmp(of_device.text, of_plan.text) == 0)
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID, "the plan is for %s, but %s is %s", text, device->name,
                     device->target);
}

static enum kiln_code create(struct kiln_device *device, struct kiln_plan *plan,
                             struct kiln_run **ret_run, struct kiln_err *err)
{
    enum kiln_code rc = check_target(device, plan, err);
    if (rc)
        return rc;
    __attribute__((cleanup(run_auto))) struct kiln_run *run = calloc(1, sizeof(*run));
    if (!run)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a run");
    run->device = device_ref(device);
    run->plan = kiln_plan_ref(plan);
    for (uint32_t i = 0; i < plan->content->object_count; i++) {
        rc = load_object(run, i, err);
        if (rc)
            return rc;
    }
    *ret_run = KILN_TAKE(run);
    return KILN_OK;
}

int kiln_run_create(struct kiln_device *device, struct kiln_plan *plan, struct kiln_run **ret_run,
                    struct kiln_error *err)
{
    if (!device || !plan || !ret_run)
        return error_argument(err, "kiln_run_create needs a device, a plan and a place for the "
                                   "run");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, create(device, plan, ret_run, &e), err);
}

void kiln_run_destroy(struct kiln_run *run) { kiln_run_free(run); }

/* ---- launching ---- */

struct tensors {
    struct kiln_memory *x, *w, *y, *workspace;
};

static enum kiln_code check_memory(const struct kiln_run *run, const char *name,
                                   const struct kiln_memory *memory, uint64_t bytes,
                                   struct kiln_err *err)
{
    if (!memory)
        return bytes
                   ? kiln_fail(err, KILN_INVALID, "no memory given for %s, which takes %llu bytes",
                               name, (unsigned long long)bytes)
                   : KILN_OK;
    if (memory->device != run->device)
        return kiln_fail(err, KILN_INVALID, "the memory for %s is on another device", name);
    if (memory->bytes < bytes)
        return kiln_fail(err, KILN_INVALID, "the memory for %s has %llu bytes, %llu are needed",
                         name, (unsigned long long)memory->bytes, (unsigned long long)bytes);
    return KILN_OK;
}

static enum kiln_code check_tensors(const struct kiln_run *run, const struct tensors *t,
                                    struct kiln_err *err)
{
    const struct plan_content *c = run->plan->content;
    const struct problem *p = &c->problem;
    uint64_t size = data_type_size((enum data_type)p->type);
    enum kiln_code rc = check_memory(run, "x", t->x, problem_x_elements(p) * size, err);
    if (!rc)
        rc = check_memory(run, "w", t->w, problem_w_elements(p) * size, err);
    if (!rc)
        rc = check_memory(run, "y", t->y, problem_y_elements(p) * size, err);
    if (!rc)
        rc = check_memory(run, "the workspace", t->workspace, c->workspace_size, err);
    return rc;
}

static enum kiln_code fill_argument(const struct message_plan_argument *from,
                                    const struct tensors *t, struct device_argument *ret_argument,
                                    struct kiln_err *err)
{
    struct device_argument a = { .value = from->value };
    switch ((enum argument_kind)from->kind) {
    case ARGUMENT_X: a.memory = t->x; break;
    case ARGUMENT_W: a.memory = t->w; break;
    case ARGUMENT_Y: a.memory = t->y; break;
    case ARGUMENT_WORKSPACE: a.memory = t->workspace; break;
    case ARGUMENT_U32:
    case ARGUMENT_F32: a.size = sizeof(uint32_t); break;
    case ARGUMENT_U64: a.size = sizeof(uint64_t); break;
    }
    if (!a.memory && !a.size)
        return kiln_fail(err, KILN_INVALID, "the plan wants a workspace and none was given");
    *ret_argument = a;
    return KILN_OK;
}

static enum kiln_code launch_one(struct kiln_run *run, uint32_t index, const struct tensors *t,
                                 struct kiln_err *err)
{
    const struct plan_launch *l = &run->plan->content->launches[index];
    struct device_argument arguments[LIMIT_KERNEL_ARGUMENTS];
    for (uint32_t i = 0; i < l->argument_count; i++) {
        enum kiln_code rc = fill_argument(&l->arguments[i], t, &arguments[i], err);
        if (rc)
            return rc;
    }
    struct device_launch launch = { .grid = l->grid,
                                    .group = l->group,
                                    .arguments = arguments,
                                    .argument_count = l->argument_count };
    enum kiln_code rc = run->device->ops->launch(run->device, run->modules[l->object],
                                                 run->entries[index], &launch, err);
    return rc ? kiln_while(err, "launching '%s'", l->name) : KILN_OK;
}

static enum kiln_code launch_all(struct kiln_run *run, const struct tensors *t,
                                 struct kiln_err *err)
{
    enum kiln_code rc = check_tensors(run, t, err);
    for (uint32_t i = 0; !rc && i < run->plan->content->launch_count; i++)
        rc = launch_one(run, i, t, err);
    return rc;
}

int kiln_run_launch(struct kiln_run *run, struct kiln_memory *x, struct kiln_memory *w,
                    struct kiln_memory *y, struct kiln_memory *workspace, struct kiln_error *err)
{
    if (!run)
        return error_argument(err, "kiln_run_launch needs a run");
    struct tensors t = { .x = x, .w = w, .y = y, .workspace = workspace };
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, launch_all(run, &t, &e), err);
}
