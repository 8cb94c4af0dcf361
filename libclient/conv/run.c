/* SPDX-License-Identifier: MIT */
/* A run is a plan whose code objects are loaded on a device, ready to launch. */
#include "common/target/target.h"
#include "libclient/device/device.h"
#include "libclient/failure.h"
#include "libclient/plans/plan.h"
#include "libclient/sized.h"

#include <kiln/run.h>
#include <string.h>

struct run_map {
    void *address;
    bool is_valid;
    uint64_t words[sizeof(struct device_map) / sizeof(uint64_t)];
};

struct kiln_run {
    struct kiln_device *device;
    struct kiln_plan *plan;
    struct device_module *modules[LIMIT_PLAN_KERNELS];
    void *functions[LIMIT_PLAN_KERNELS];
    pthread_mutex_t mutex;
    struct run_map maps[LIMIT_PLAN_MAPS];
};

static void kiln_run_free(struct kiln_run *run)
{
    if (!run)
        return;
    struct kiln_device *device = run->device;
    bool is_child = !fork_guard_holds(&device->guard);
    for (size_t i = 0; !is_child && i < LIMIT_PLAN_KERNELS; i++)
        device->ops->forget(device, run->functions[i]);
    for (size_t i = 0; !is_child && i < LIMIT_PLAN_KERNELS; i++)
        module_put(device, run->modules[i]);
    device_unref(device);
    plan_destroy(run->plan);
    pthread_mutex_destroy(&run->mutex);
    free(run);
}

static void run_auto(struct kiln_run **run) { kiln_run_free(*run); }

/* ---- loading ---- */

static enum kiln_code load_object(struct kiln_run *run, uint32_t index, struct kiln_err *err)
{
    const struct plan_content *c = run->plan->content;
    struct kiln_kernel *kernel = c->objects[index].kernel;
    if (!kernel)
        return kiln_fail(err, KILN_INVALID,
                         "the plan has no code objects: request it without no_objects");
    return module_get(run->device, kernel, &run->modules[index], err)
               ? kiln_while(err, "loading kernel %.12s of %s", c->objects[index].hex, c->solver)
               : KILN_OK;
}

static enum kiln_code find_function(struct kiln_run *run, uint32_t index, struct kiln_err *err)
{
    const struct plan_content *c = run->plan->content;
    const struct plan_launch *l = &c->launches[index];
    struct kiln_device *device = run->device;
    const struct device_entry_point entry = { .name = l->name, .shared_bytes = l->shared_bytes };
    return device->ops->find(device, run->modules[l->object]->native, &entry,
                             &run->functions[index], err)
               ? kiln_while(err, "loading kernel %.12s of %s", c->objects[l->object].hex, c->solver)
               : KILN_OK;
}

/* Returns whether the target |device| has all features that the target |plan| names.  Features that
 * |plan| does not name may be on or off. */
static bool features_suit(const char *device, const char *plan)
{
    for (const char *at = strchr(plan, ':'); at; at = strchr(at + 1, ':')) {
        size_t size = 1 + strcspn(at + 1, ":");
        const char *same = strstr(device, ":");
        while (same && (strncmp(same, at, size) != 0 || (same[size] && same[size] != ':')))
            same = strchr(same + 1, ':');
        if (!same)
            return false;
    }
    return true;
}

/* Code for sm_90 also runs on a device with the target sm_90a. */
static bool arch_suits(const struct target *device, const struct target *plan)
{
    char of_device[LIMIT_TARGET_TEXT], of_plan[LIMIT_TARGET_TEXT];
    target_arch(device, of_device, sizeof(of_device));
    target_arch(plan, of_plan, sizeof(of_plan));
    size_t size = strlen(of_plan);
    return strcmp(of_device, of_plan) == 0 ||
           (plan->family == TARGET_NVIDIA && strncmp(of_device, of_plan, size) == 0 &&
            strcmp(of_device + size, "a") == 0);
}

static bool target_suits(const struct target *device, const struct target *plan)
{
    if (device->family != plan->family || plan->family == TARGET_OPENCL)
        return strcmp(device->text, plan->text) == 0;
    return arch_suits(device, plan) && features_suit(device->text, plan->text);
}

/* Returns KILN_INVALID if the plan is for another target than the device's.  Succeeds if a target
 * cannot be parsed, so that the GPU runtime decides later. */
static enum kiln_code check_target(const struct kiln_device *device, const struct kiln_plan *plan,
                                   struct kiln_err *err)
{
    struct target of_device, of_plan;
    struct kiln_err ignored = KILN_ERR_INIT;
    const char *text = plan->content->target;
    if (target_parse(bytes_of_text(device->target), &of_device, &ignored) ||
        target_parse(bytes_of_text(text), &of_plan, &ignored) || target_suits(&of_device, &of_plan))
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID, "the plan is for %s, but %s is %s", text, device->name,
                     device->target);
}

static enum kiln_code load_all(struct kiln_run *run, struct kiln_err *err)
{
    const struct plan_content *c = run->plan->content;
    enum kiln_code rc = KILN_OK;
    for (uint32_t i = 0; !rc && i < c->object_count; i++)
        rc = load_object(run, i, err);
    for (uint32_t i = 0; !rc && i < c->launch_count; i++)
        rc = find_function(run, i, err);
    return rc;
}

static enum kiln_code create_run(struct kiln_device *device, struct kiln_plan *plan,
                                 struct kiln_run **ret_run, struct kiln_err *err)
{
    enum kiln_code rc = device_enter(device, err);
    if (!rc)
        rc = check_target(device, plan, err);
    if (rc)
        return rc;
    struct kiln_run *fresh = calloc(1, sizeof(*fresh));
    if (!fresh)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a run");
    pthread_mutex_init(&fresh->mutex, NULL);
    __attribute__((cleanup(run_auto))) struct kiln_run *run = fresh;
    run->device = device_ref(device);
    run->plan = kiln_plan_ref(plan);
    rc = load_all(run, err);
    if (!rc)
        *ret_run = KILN_TAKE(run);
    return rc;
}

int kiln_run_create(struct kiln_device *device, struct kiln_plan *plan, struct kiln_run **ret_run,
                    struct kiln_error *err)
{
    if (!device || !plan || !ret_run)
        return error_argument(err, "kiln_run_create needs a device, a plan and a pointer for the "
                                   "run");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, create_run(device, plan, ret_run, &e), err);
}

void kiln_run_destroy(struct kiln_run *run) { kiln_run_free(run); }

/* ---- launching ---- */

/* Required alignment of tensors, in bytes: kernels read and write four elements at a time.  Memory
 * that a GPU runtime allocates always has this alignment. */
#define TENSOR_ALIGNMENT 16u

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
    if (run->device->ops->memory_is_address && (uintptr_t)memory->native % TENSOR_ALIGNMENT)
        return kiln_fail(err, KILN_INVALID,
                         "the memory for %s begins at %p: it must be aligned to %u bytes", name,
                         memory->native, TENSOR_ALIGNMENT);
    return KILN_OK;
}

static enum kiln_code check_tensors(const struct kiln_run *run, const struct kiln_tensors *t,
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
                                    const struct kiln_tensors *t,
                                    struct device_argument *ret_argument, struct kiln_err *err)
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
    case ARGUMENT_TENSOR_MAP: return KILN_OK;
    }
    if (!a.memory && !a.size)
        return kiln_fail(err, KILN_INVALID, "the plan needs a workspace, and none was given");
    if (a.memory && a.value >= a.memory->bytes)
        return kiln_fail(err, KILN_INVALID, "an argument begins at byte %llu of a memory of %llu",
                         (unsigned long long)a.value, (unsigned long long)a.memory->bytes);
    *ret_argument = a;
    return KILN_OK;
}

static struct kiln_memory *operand_of(const struct kiln_tensors *t, uint8_t operand)
{
    switch ((enum argument_kind)operand) {
    case ARGUMENT_X: return t->x;
    case ARGUMENT_W: return t->w;
    case ARGUMENT_Y: return t->y;
    default: return t->workspace;
    }
}

/* Gets the map that was encoded last, if it is for |address|.  Returns false if it is not, or if
 * another thread uses the cached map.  The caller then encodes the map instead of waiting. */
static bool get_cached_map(struct kiln_run *run, uint32_t index, const void *address,
                           struct device_map *ret_map)
{
    struct run_map *cached = &run->maps[index];
    if (pthread_mutex_trylock(&run->mutex))
        return false;
    bool is_same = cached->is_valid && cached->address == address;
    if (is_same)
        memcpy(ret_map, cached->words, sizeof(*ret_map));
    pthread_mutex_unlock(&run->mutex);
    return is_same;
}

static void cache_map(struct kiln_run *run, uint32_t index, void *address,
                      const struct device_map *map)
{
    struct run_map *cached = &run->maps[index];
    if (pthread_mutex_trylock(&run->mutex))
        return;
    cached->address = address;
    cached->is_valid = true;
    memcpy(cached->words, map, sizeof(*map));
    pthread_mutex_unlock(&run->mutex);
}

static enum kiln_code fill_map(struct kiln_run *run, uint32_t index, const struct kiln_tensors *t,
                               struct device_map *ret_map, struct kiln_err *err)
{
    const struct tensor_map *map = &run->plan->content->maps[index];
    const struct kiln_memory *memory = operand_of(t, map->operand);
    uint64_t reach = tensor_map_reach(map);
    if (!memory)
        return kiln_fail(err, KILN_INVALID, "the plan needs a workspace, and none was given");
    if (reach > memory->bytes)
        return kiln_fail(err, KILN_INVALID, "a tensor map reaches to byte %llu of a memory of %llu",
                         (unsigned long long)reach, (unsigned long long)memory->bytes);
    if (!run->device->ops->encode)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s has no tensor maps", run->device->name);
    char *address = (char *)memory->native + map->offset;
    if (get_cached_map(run, index, address, ret_map))
        return KILN_OK;
    enum kiln_code rc = run->device->ops->encode(run->device, map, address, ret_map, err);
    if (!rc)
        cache_map(run, index, address, ret_map);
    return rc;
}

static enum kiln_code launch_one(struct kiln_run *run, uint32_t index, const struct kiln_tensors *t,
                                 void *stream, struct kiln_err *err)
{
    const struct plan_launch *l = &run->plan->content->launches[index];
    struct device_argument arguments[LIMIT_KERNEL_ARGUMENTS];
    struct device_map maps[LIMIT_PLAN_MAPS];
    for (uint32_t i = 0, map = l->first_map; i < l->argument_count; i++) {
        enum kiln_code rc = fill_argument(&l->arguments[i], t, &arguments[i], err);
        if (!rc && l->arguments[i].kind == ARGUMENT_TENSOR_MAP) {
            arguments[i] = (struct device_argument){ .map = &maps[map] };
            rc = fill_map(run, map, t, &maps[map], err);
            map++;
        }
        if (rc)
            return kiln_while(err, "launching '%s'", l->name);
    }
    struct device_launch launch = { .grid = l->grid,
                                    .group = l->group,
                                    .shared_bytes = l->shared_bytes,
                                    .arguments = arguments,
                                    .argument_count = l->argument_count,
                                    .stream = stream };
    return run->device->ops->launch(run->device, run->functions[index], &launch, err)
               ? kiln_while(err, "launching '%s'", l->name)
               : KILN_OK;
}

static enum kiln_code launch_all(struct kiln_run *run, const struct kiln_tensors *t, void *stream,
                                 struct kiln_err *err)
{
    enum kiln_code rc = check_tensors(run, t, err);
    for (uint32_t i = 0; !rc && i < run->plan->content->launch_count; i++)
        rc = launch_one(run, i, t, stream, err);
    return rc;
}

int kiln_run_launch(struct kiln_run *run, const struct kiln_tensors *tensors,
                    struct kiln_stream *stream, struct kiln_error *err)
{
    struct kiln_tensors t;
    void *native = NULL;
    if (!run)
        return error_argument(err, "kiln_run_launch needs a run");
    if (!tensors || !sized_is_fine(tensors->size, SIZED_TO(struct kiln_tensors, workspace)))
        return error_argument(err, "kiln_tensors.size is not set: give it sizeof the struct");
    sized_copy(&t, sizeof(t), tensors, tensors->size);
    struct kiln_err e = KILN_ERR_INIT;
    enum kiln_code rc = device_enter(run->device, &e);
    if (!rc)
        rc = device_stream(run->device, stream, &native, &e);
    if (!rc)
        rc = launch_all(run, &t, native, &e);
    return error_return(&e, rc, err);
}

/* ---- launching on the job's own memory ---- */

static struct kiln_memory borrow(const struct kiln_run *run, void *native, uint64_t bytes)
{
    return (struct kiln_memory){ .device = run->device, .native = native, .bytes = bytes };
}

static enum kiln_code launch_native(struct kiln_run *run, const struct kiln_native_tensors *n,
                                    struct kiln_err *err)
{
    const struct plan_content *c = run->plan->content;
    const struct problem *p = &c->problem;
    uint64_t size = data_type_size((enum data_type)p->type);
    struct kiln_memory x = borrow(run, n->x, problem_x_elements(p) * size);
    struct kiln_memory w = borrow(run, n->w, problem_w_elements(p) * size);
    struct kiln_memory y = borrow(run, n->y, problem_y_elements(p) * size);
    struct kiln_memory workspace = borrow(run, n->workspace, n->workspace_bytes);
    const struct kiln_tensors t = { .size = sizeof(t),
                                    .x = n->x ? &x : NULL,
                                    .w = n->w ? &w : NULL,
                                    .y = n->y ? &y : NULL,
                                    .workspace = n->workspace ? &workspace : NULL };
    bool has_default = run->device->ops->memory_is_address; /* OpenCL has no default queue */
    void *stream = n->stream || has_default ? n->stream : run->device->stream;
    enum kiln_code rc = device_enter(run->device, err);
    return rc ? rc : launch_all(run, &t, stream, err);
}

int kiln_run_launch_native(struct kiln_run *run, const struct kiln_native_tensors *tensors,
                           struct kiln_error *err)
{
    struct kiln_native_tensors n;
    if (!run)
        return error_argument(err, "kiln_run_launch_native needs a run");
    if (!tensors || !sized_is_fine(tensors->size, SIZED_TO(struct kiln_native_tensors, stream)))
        return error_argument(err, "kiln_native_tensors.size is not set: give it sizeof the "
                                   "struct");
    sized_copy(&n, sizeof(n), tensors, tensors->size);
    struct kiln_err e;
    kiln_err_init(&e);
    return error_return(&e, launch_native(run, &n, &e), err);
}
