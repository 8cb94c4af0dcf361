/* SPDX-License-Identifier: MIT */
#include "libclient/torch/torch.h"

#include "libclient/torch/call.h"
#include "libclient/torch/operators.h"

#include <stdlib.h>
#include <string.h>

/* Values of PyTorch's enumerations Float32Backend, Float32Op and Float32Precision. */
#define BACKEND_CUDA 1
#define OPERATION_CONV 1
#define PRECISION_TF32 2

/* All that exist. They are never freed, so checkers of leaks must find pointers to them. */
static _Atomic(struct kiln_torch_operators *) all_operators;
static _Atomic(struct kiln_torch_choice *) all_choices;

const char *const *kiln_torch_symbols(void) { return pytorch_symbols; }

/* Makes the number 1 as a c10::Scalar: PyTorch returns the number that a tensor contains. */
static bool make_one(struct kiln_torch_operators *o)
{
    const struct pytorch *torch = &o->torch;
    tensor_handle tensor = NULL;
    void *data = NULL;
    if (torch->empty(0, NULL, NULL, torch->int64(), torch->cpu(), 0, &tensor))
        return false;
    bool has_data = torch->data(tensor, &data) == 0 && data;
    if (has_data) {
        *(int64_t *)data = 1;
        o->one = torch->item(tensor);
    }
    (void)torch->tensor_delete(tensor);
    return has_data;
}

static bool fill_operators(struct kiln_torch_operators *o, const struct kiln_torch_setup *setup)
{
    if (strlen(setup->dispatch_key) >= sizeof(o->dispatch_key))
        return false;
    strcpy(o->dispatch_key, setup->dispatch_key);
    pytorch_fill(&o->torch, setup->functions);
    o->operator_delete = setup->operator_delete;
    o->delete_value = setup->delete_value;
    o->asked = setup->asked;
    o->original = setup->original;
    o->launch = setup->launch;
    o->stream = setup->stream;
    o->context = o->torch.context();
    pthread_mutex_init(&o->table.lock, NULL);
    return make_one(o);
}

struct kiln_torch_operators *kiln_torch_new(const struct kiln_torch_setup *setup)
{
    struct kiln_torch_operators *o = calloc(1, sizeof(*o));
    if (o && !fill_operators(o, setup)) {
        free(o);
        return NULL;
    }
    if (o)
        o->next = atomic_exchange(&all_operators, o);
    return o;
}

int kiln_torch_start(struct kiln_torch_operators *o)
{
    int rc = o->torch.library_new("aten", o->dispatch_key, "libkiln-torch", 0, &o->library);
    if (rc)
        return rc;
    use_operators(o);
    rc = o->torch.library_add(o->library, "convolution", on_convolution);
    if (!rc)
        rc = o->torch.library_add(o->library, "convolution_backward", on_convolution_backward);
    if (rc)
        kiln_torch_stop(o);
    return rc;
}

void kiln_torch_stop(struct kiln_torch_operators *o)
{
    if (o->library)
        (void)o->torch.library_delete(o->library);
    o->library = NULL;
}

uint32_t kiln_torch_flags(const struct kiln_torch_operators *o)
{
    const struct pytorch *torch = &o->torch;
    bool is_deterministic =
        torch->deterministic(o->context) || torch->deterministic_algorithms(o->context);
    bool has_tf32 = torch->precision(o->context, BACKEND_CUDA, OPERATION_CONV) == PRECISION_TF32;
    return (torch->benchmark(o->context) ? FLAG_BENCHMARK : 0u) |
           (is_deterministic ? FLAG_DETERMINISTIC : 0u) |
           (torch->enabled(o->context) ? FLAG_ENABLED : 0u) | (has_tf32 ? FLAG_TF32 : 0u);
}

/* ---- choices ---- */

struct kiln_torch_choice *kiln_torch_choice_new(const struct kiln_torch_work *work)
{
    struct kiln_torch_choice *choice = calloc(1, sizeof(*choice));
    if (!choice)
        return NULL;
    atomic_init(&choice->action, work ? ACTION_KILN : ACTION_ORIGINAL);
    if (work) {
        choice->work = *work;
        choice->is_limited = work->calls_max >= 0;
        atomic_init(&choice->calls_left, work->calls_max);
    }
    choice->next = atomic_exchange(&all_choices, choice);
    return choice;
}

void kiln_torch_choice_leave(struct kiln_torch_choice *choice)
{
    atomic_store_explicit(&choice->action, ACTION_ORIGINAL, memory_order_relaxed);
}

void kiln_torch_choice_counts(const struct kiln_torch_choice *choice, uint64_t ret_counts[2])
{
    ret_counts[0] = atomic_load_explicit(&choice->kiln_calls, memory_order_relaxed);
    ret_counts[1] = atomic_load_explicit(&choice->original_calls, memory_order_relaxed);
}

int kiln_torch_remember(struct kiln_torch_choice *first, struct kiln_torch_choice *second)
{
    const struct call *call = call_passed_on();
    struct kiln_torch_choice *const choices[2] = { first, second };
    if (!call || !call->has_key || kiln_torch_flags(call->operators) != call->flags)
        return 0;
    struct table *table = &((struct kiln_torch_operators *)call->operators)->table;
    return table_add(table, &call->key, choices);
}
