/* SPDX-License-Identifier: MIT */
#include "libclient/torch/operators.h"

#include "libclient/torch/call.h"
#include <kiln/run.h>
#include <stdio.h>

static _Atomic(const struct kiln_torch_operators *) installed;
static _Thread_local struct call *passed_on;

void use_operators(const struct kiln_torch_operators *operators)
{
    atomic_store(&installed, operators);
}

struct call *call_passed_on(void) { return passed_on; }

/* ---- kiln ---- */

static bool is_by(const struct kiln_torch_choice *choice, enum action action)
{
    return choice && atomic_load_explicit(&choice->action, memory_order_relaxed) == (int)action;
}

static void *data_of(const struct pytorch *torch, tensor_handle tensor)
{
    void *data = NULL;
    if (tensor)
        (void)torch->data(tensor, &data);
    return data;
}

/* Returns whether the choice still counts in this call, which runs on |stream|.  Python decides
 * about a postponed search after some calls, and on streams other than the default one. */
static bool is_valid(struct kiln_torch_choice *choice, const void *stream)
{
    if (!choice->is_limited || !is_by(choice, ACTION_KILN))
        return true;
    return !stream && atomic_fetch_sub_explicit(&choice->calls_left, 1, memory_order_relaxed) > 0;
}

struct memory {
    const struct pytorch *torch;
    tensor_handle made, copies[2];
};

static void release_memory(struct memory *memory)
{
    const tensor_handle all[] = { memory->made, memory->copies[0], memory->copies[1] };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i])
            (void)memory->torch->tensor_delete(all[i]);
}

static bool launch(const struct call *call, const struct kiln_torch_work *work, void *const data[3],
                   tensor_handle workspace)
{
    const struct kiln_native_tensors tensors = {
        .size = sizeof(tensors),
        .x = data[work->order[0]],
        .w = data[work->order[1]],
        .y = data[work->order[2]],
        .workspace = work->workspace ? data_of(&call->operators->torch, workspace) : NULL,
        .workspace_bytes = work->workspace,
        .stream = call->stream,
    };
    return call->operators->launch(work->run, &tensors, NULL) == 0;
}

/* Copies the operands whose strides are not those that kiln needs, and returns the data of both. */
static bool find_operands(const struct call *call, const struct kiln_torch_work *work,
                          const tensor_handle operands[2], struct memory *memory, void *ret_data[2])
{
    for (int i = 0; i < 2; i++) {
        if (work->copies[i] &&
            !call_copy(call, operands[i], work->operand_strides[i], &memory->copies[i]))
            return false;
        ret_data[i] = data_of(memory->torch, work->copies[i] ? memory->copies[i] : operands[i]);
    }
    return true;
}

/* Runs kiln on two operands.  Returns the result, or NULL: then Python finds out what failed. */
static tensor_handle compute(const struct call *call, const struct kiln_torch_work *work,
                             const tensor_handle operands[2], tensor_handle workspace)
{
    const struct pytorch *torch = &call->operators->torch;
    struct memory memory __attribute__((cleanup(release_memory))) = { .torch = torch };
    void *data[3];
    if (!find_operands(call, work, operands, &memory, data) ||
        !call_make_result(call, work, &memory.made))
        return NULL;
    data[2] = data_of(torch, memory.made);
    if (!launch(call, work, data, workspace))
        return NULL;
    tensor_handle made = memory.made;
    memory.made = NULL;
    return made;
}

/* ---- PyTorch and Python, which may throw ---- */

/* Moves a returned tensor into a handle. */
static tensor_handle handle_of(const struct pytorch *torch, void *tensor)
{
    tensor_handle handle = NULL;
    if (torch->tensor_new(&handle) == 0)
        *(void **)handle = tensor;
    return handle;
}

static struct ints ints_of(const struct list *list)
{
    return (struct ints){ list->longer ? list->longer : list->of, list->count };
}

static void forward_by_python(struct call *call)
{
    const struct pytorch *torch = &call->operators->torch;
    struct returned made = torch->convolution(
        call->operators->asked, call->tensors[0], call->tensors[1], &call->bias,
        ints_of(&call->stride), ints_of(&call->padding), ints_of(&call->dilation), call->transposed,
        ints_of(&call->output_padding), &call->groups);
    call->made[0] = handle_of(torch, made.of[0]);
}

/* Does what PyTorch's aten::convolution does, without one of its two dispatches. */
static void forward_by_original(struct call *call)
{
    const struct pytorch *torch = &call->operators->torch;
    struct returned made = torch->convolution_with_flags(
        call->operators->original, call->tensors[0], call->tensors[1], &call->bias,
        ints_of(&call->stride), ints_of(&call->padding), ints_of(&call->dilation), call->transposed,
        ints_of(&call->output_padding), &call->groups, call->flags & FLAG_BENCHMARK,
        call->flags & FLAG_DETERMINISTIC, call->flags & FLAG_ENABLED, call->flags & FLAG_TF32);
    call->made[0] = handle_of(torch, made.of[0]);
}

struct guard {
    const struct pytorch *torch;
    void *guard;
};

static void release_guard(struct guard *guard)
{
    if (guard->guard)
        (void)guard->torch->guard_delete(guard->guard);
}

/* Makes the device of the call's tensors current, as PyTorch's kernel of convolution_backward for
 * GPUs does.  The kernel for every device, which the operators call instead, does not, and cuDNN
 * would run on the device that is current. */
static struct guard guard_device(const struct call *call)
{
    struct guard guard = { .torch = &call->operators->torch };
    int32_t device;
    if (guard.torch->device_index(call->tensors[0], &device) == 0 && device >= 0 &&
        guard.torch->guard_new(device, &guard.guard))
        guard.guard = NULL;
    return guard;
}

static void backward_by(struct call *call, uint64_t keys, struct mask mask)
{
    const struct pytorch *torch = &call->operators->torch;
    const struct maybe_ints bias_sizes = { ints_of(&call->bias_sizes), call->has_bias_sizes };
    struct guard guard __attribute__((cleanup(release_guard))) = guard_device(call);
    (void)guard;
    struct returned made = torch->convolution_backward(
        keys, call->tensors[0], call->tensors[1], call->tensors[2], bias_sizes,
        ints_of(&call->stride), ints_of(&call->padding), ints_of(&call->dilation), call->transposed,
        ints_of(&call->output_padding), &call->groups, mask);
    for (int i = 0; i < 3; i++) {
        tensor_handle handle = handle_of(torch, made.of[2 - i]);
        if (!call->made[i])
            call->made[i] = handle;
        else /* kiln has computed this one */
            (void)torch->tensor_delete(handle);
    }
}

static void end_passing_on(struct call **call) { passed_on = (*call)->outer; }

/* Runs Python's operator, which may call kiln_torch_remember(). */
static void ask_python(struct call *call)
{
    struct call *ended __attribute__((cleanup(end_passing_on))) = call;
    (void)ended;
    call->outer = passed_on;
    passed_on = call;
    if (call->is_backward)
        backward_by(call, call->operators->asked, call->mask);
    else
        forward_by_python(call);
}

/* ---- the operators ---- */

/* Returns NULL if Python has to decide. */
static const struct entry *find_choices(struct call *call)
{
    int32_t device;
    call_make_key(call);
    const struct entry *entry =
        call->has_key ? table_find(&call->operators->table, &call->key) : NULL;
    if (!entry || call->operators->torch.device_index(call->tensors[0], &device) ||
        call->operators->stream(device, &call->stream))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (entry->choices[i] && !is_valid(entry->choices[i], call->stream))
            return NULL;
    return entry;
}

static void count_kiln(struct kiln_torch_choice *choice)
{
    atomic_fetch_add_explicit(&choice->kiln_calls, 1, memory_order_relaxed);
}

static void count_original(struct kiln_torch_choice *choice)
{
    atomic_fetch_add_explicit(&choice->original_calls, 1, memory_order_relaxed);
}

struct held {
    const struct pytorch *torch;
    tensor_handle tensor;
};

static void release_held(struct held *held)
{
    if (held->tensor)
        (void)held->torch->tensor_delete(held->tensor);
}

/* Adds the bias to the result, of which the channels are then the last dimension.  May throw. */
static void add_bias(const struct call *call)
{
    const struct pytorch *torch = &call->operators->torch;
    struct held view __attribute__((cleanup(
        release_held))) = { torch, handle_of(torch, torch->transpose(call->made[0], 1, -1).of[0]) };
    (void)torch->add(view.tensor, call->tensors[2], &call->operators->one);
}

static void compute_output(struct call *call, const struct kiln_torch_work *work)
{
    struct held workspace
        __attribute__((cleanup(release_held))) = { &call->operators->torch, NULL };
    if (call_make_workspace(call, work->workspace, &workspace.tensor))
        call->made[0] = compute(call, work, call->tensors, workspace.tensor);
}

static void run_forward(struct call *call)
{
    const struct entry *entry = find_choices(call);
    struct kiln_torch_choice *choice = entry ? entry->choices[0] : NULL;
    if (is_by(choice, ACTION_ORIGINAL)) {
        count_original(choice);
        forward_by_original(call);
        return;
    }
    if (choice)
        compute_output(call, &choice->work);
    if (!call->made[0]) {
        ask_python(call);
        return;
    }
    count_kiln(choice);
    if (call->bias.exists)
        add_bias(call);
}

/* Makes a workspace for both gradients, which are computed one after the other on one stream. */
static bool make_workspace(const struct call *call, const struct kiln_torch_work *const works[2],
                           tensor_handle *ret_workspace)
{
    uint64_t bytes = 0;
    for (int i = 0; i < 2; i++)
        if (works[i] && works[i]->workspace > bytes)
            bytes = works[i]->workspace;
    return call_make_workspace(call, bytes, ret_workspace);
}

/* Lets kiln compute the gradients that it was chosen for.  Returns false if it failed. */
static bool compute_gradients(struct call *call, struct kiln_torch_choice *const choices[2])
{
    struct held workspace
        __attribute__((cleanup(release_held))) = { &call->operators->torch, NULL };
    const struct kiln_torch_work *works[2];
    for (int i = 0; i < 2; i++)
        works[i] = is_by(choices[i], ACTION_KILN) ? &choices[i]->work : NULL;
    if (!make_workspace(call, works, &workspace.tensor))
        return false;
    for (int i = 0; i < 2; i++) {
        const tensor_handle operands[] = { call->tensors[0], call->tensors[2 - i] };
        if (!works[i])
            continue;
        call->made[i] = compute(call, works[i], operands, workspace.tensor);
        if (!call->made[i])
            return false;
    }
    for (int i = 0; i < 2; i++)
        if (call->made[i])
            count_kiln(choices[i]);
    return true;
}

/* Throws PyTorch's exception for a mask that does not have three elements.  In inference mode,
 * PyTorch calls this operator before it has checked the mask. */
static void check_mask(const struct call *call)
{
    char message[128];
    if (call->mask_count == 3)
        return;
    (void)snprintf(message, sizeof(message),
                   "Tried to convert a List with %zu elements to a fixed-size array of size 3",
                   call->mask_count);
    call->operators->torch.fail(__func__, __FILE__, __LINE__, message);
}

static void run_backward(struct call *call)
{
    check_mask(call);
    const struct entry *entry = find_choices(call);
    if (!entry || !compute_gradients(call, entry->choices)) {
        ask_python(call);
        return;
    }
    struct mask left = call->mask;
    for (int i = 0; i < 2; i++) {
        left.of[i] = left.of[i] && !call->made[i];
        if (left.of[i])
            count_original(entry->choices[i]);
    }
    bool is_by_kiln = call->made[0] || call->made[1];
    if (left.of[0] || left.of[1] || left.of[2] || !is_by_kiln) /* PyTorch checks its arguments */
        backward_by(call, call->operators->original, left);
    for (int i = 0; i < 3; i++) /* a result that is not wanted is an undefined tensor */
        if (!call->made[i])
            (void)call->operators->torch.tensor_new(&call->made[i]);
}

/* Hands the results over to PyTorch. */
static void return_made(struct call *call, uint64_t *stack, uint64_t results)
{
    for (uint64_t i = 0; i < results; i++) {
        stack[i] = (uint64_t)(uintptr_t)call->made[i];
        call->made[i] = NULL;
    }
}

void on_convolution(uint64_t *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments;
    CALL_AUTO struct call call;
    call_begin(&call, atomic_load_explicit(&installed, memory_order_acquire));
    call_read_forward(&call, stack);
    run_forward(&call);
    return_made(&call, stack, results);
}

void on_convolution_backward(uint64_t *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments;
    CALL_AUTO struct call call;
    call_begin(&call, atomic_load_explicit(&installed, memory_order_acquire));
    call_read_backward(&call, stack);
    run_backward(&call);
    return_made(&call, stack, results);
}
