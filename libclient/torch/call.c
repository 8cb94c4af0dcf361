/* SPDX-License-Identifier: MIT */
#include "libclient/torch/call.h"

#include "libclient/torch/operators.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 16 /* bytes; what kiln_run_launch_native requires of each tensor */
#define SYMINT_MIN (-((int64_t)1 << 62))

/* Does not touch the key's words, which are most of a call's size. */
void call_begin(struct call *call, const struct kiln_torch_operators *operators)
{
    memset(call, 0, offsetof(struct call, key));
    call->operators = operators;
}

static tensor_handle to_handle(uint64_t value) { return (tensor_handle)(uintptr_t)value; }

/* Returns the content of an optional value, and frees the memory around it. */
static uint64_t take_optional(const struct kiln_torch_operators *o, uint64_t value)
{
    uint64_t *place = (uint64_t *)(uintptr_t)value;
    uint64_t content = *place;
    if (o->delete_value)
        (void)o->delete_value(place);
    else
        o->operator_delete(place);
    return content;
}

/* A c10::SymInt takes smaller numbers for pointers.  PyTorch rejects this one, too, with another
 * message. */
static int64_t to_symint(uint64_t value)
{
    int64_t number = (int64_t)value;
    return number < SYMINT_MIN ? SYMINT_MIN : number;
}

/* Returns all numbers, because PyTorch's error shows them.  Without memory, a long list is cut. */
static struct list take_ints(const struct pytorch *torch, uint64_t value)
{
    void *from = (void *)(uintptr_t)value;
    struct list list = { .count = 0 };
    (void)torch->list_size(from, &list.count);
    if (list.count > LIST_MAX) {
        list.longer = calloc(list.count, sizeof(*list.longer));
        list.count = list.longer ? list.count : LIST_MAX;
    }
    int64_t *of = list.longer ? list.longer : list.of;
    for (size_t i = 0; i < list.count; i++) {
        uint64_t item = 0;
        (void)torch->list_get(from, i, &item);
        of[i] = to_symint(item);
    }
    (void)torch->list_delete(from);
    return list;
}

/* The arguments that follow the tensors in both operators. */
static void read_rest(struct call *call, const uint64_t *stack)
{
    const struct pytorch *torch = &call->operators->torch;
    call->stride = take_ints(torch, stack[0]);
    call->padding = take_ints(torch, stack[1]);
    call->dilation = take_ints(torch, stack[2]);
    call->transposed = (bool)(stack[3] & 1);
    call->output_padding = take_ints(torch, stack[4]);
    call->groups = to_symint(stack[5]);
}

/* Reads the bias.  aten::conv2d and others pass an undefined tensor instead of none. */
static void read_bias(struct call *call, uint64_t value)
{
    const struct pytorch *torch = &call->operators->torch;
    if (!value)
        return;
    tensor_handle bias = to_handle(take_optional(call->operators, value));
    bool is_defined = true;
    if (torch->is_defined(bias, &is_defined) == 0 && !is_defined) {
        (void)torch->tensor_delete(bias);
        return;
    }
    call->tensors[2] = bias;
    call->bias = (struct maybe_tensor){ *(void **)bias, true };
}

void call_read_forward(struct call *call, uint64_t *stack)
{
    call->tensors[0] = to_handle(stack[0]);
    call->tensors[1] = to_handle(stack[1]);
    read_bias(call, stack[2]);
    read_rest(call, stack + 3);
}

void call_read_backward(struct call *call, uint64_t *stack)
{
    const struct pytorch *torch = &call->operators->torch;
    call->is_backward = true;
    for (int i = 0; i < 3; i++)
        call->tensors[i] = to_handle(stack[i]);
    if (stack[3]) {
        call->has_bias_sizes = true;
        call->bias_sizes = take_ints(torch, take_optional(call->operators, stack[3]));
    }
    read_rest(call, stack + 4);
    struct list mask = take_ints(torch, stack[10]);
    call->mask_count = mask.count;
    for (size_t i = 0; i < 3 && i < mask.count; i++)
        call->mask.of[i] = (bool)(mask.of[i] & 1);
    free(mask.longer);
}

void call_end(struct call *call)
{
    const struct pytorch *torch = &call->operators->torch;
    for (int i = 0; i < 3; i++) {
        if (call->tensors[i])
            (void)torch->tensor_delete(call->tensors[i]);
        if (call->made[i])
            (void)torch->tensor_delete(call->made[i]);
    }
    free(call->bias_sizes.longer);
    free(call->stride.longer);
    free(call->padding.longer);
    free(call->dilation.longer);
    free(call->output_padding.longer);
}

/* ---- the key ---- */

static void add_word(struct key *key, int64_t word) { key->words[key->count++] = word; }

static void add_words(struct key *key, const int64_t *words, size_t count)
{
    memcpy(key->words + key->count, words, count * sizeof(*words));
    key->count += count;
}

static bool add_list(struct key *key, const struct list *list)
{
    if (list->longer)
        return false;
    add_word(key, (int64_t)list->count);
    add_words(key, list->of, list->count);
    return true;
}

static bool add_tensor(struct key *key, const struct pytorch *torch, tensor_handle tensor)
{
    int64_t dims, *sizes, *strides;
    int32_t type, device_type, device_index;
    if (torch->dims(tensor, &dims) || dims > KILN_TORCH_DIMS_MAX || torch->sizes(tensor, &sizes) ||
        torch->strides(tensor, &strides) || torch->type(tensor, &type) ||
        torch->device_type(tensor, &device_type) || torch->device_index(tensor, &device_index))
        return false;
    add_word(key, dims | (int64_t)(uint8_t)type << 8 | (int64_t)(uint16_t)device_type << 16 |
                      (int64_t)(uint16_t)device_index << 32);
    add_words(key, sizes, (size_t)dims);
    add_words(key, strides, (size_t)dims);
    return true;
}

static uint64_t hash_of(const struct key *key)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < key->count; i++) {
        hash = (hash ^ (uint64_t)key->words[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Returns a bit for each of the operands' pairs that kiln_run_launch_native accepts. */
static bool find_alignment(const struct call *call, int64_t *ret_bits)
{
    uintptr_t places[3] = { 0 };
    for (int i = 0; i < (call->is_backward ? 3 : 2); i++) {
        void *data;
        if (call->operators->torch.data(call->tensors[i], &data))
            return false;
        places[i] = (uintptr_t)data % ALIGNMENT;
    }
    bool first = (places[0] | places[1]) == 0, second = (places[0] | places[2]) == 0;
    *ret_bits = first | second << 1;
    return true;
}

static int64_t bits_of(const struct call *call)
{
    int64_t bits = call->is_backward | call->transposed << 1 | call->bias.exists << 2;
    for (int i = 0; i < 3; i++)
        bits |= (int64_t)call->mask.of[i] << (3 + i);
    return bits | (int64_t)call->flags << 8;
}

void call_make_key(struct call *call)
{
    struct key *key = &call->key;
    int64_t alignment;
    call->flags = kiln_torch_flags(call->operators);
    key->count = 0;
    if (*call->operators->torch.tracing() || !find_alignment(call, &alignment))
        return;
    add_word(key, bits_of(call) | alignment << 16);
    for (int i = 0; i < 3; i++)
        if (call->tensors[i] && !add_tensor(key, &call->operators->torch, call->tensors[i]))
            return;
    if (!add_list(key, &call->stride) || !add_list(key, &call->padding) ||
        !add_list(key, &call->dilation) || !add_list(key, &call->output_padding))
        return;
    add_word(key, call->groups);
    key->hash = hash_of(key);
    call->has_key = true;
}

/* ---- memory ---- */

struct shape {
    int32_t type;
    int64_t dims;
    const int64_t *sizes, *strides;
};

/* Makes a tensor on the device of |like|. */
static bool make_tensor(const struct pytorch *torch, tensor_handle like, const struct shape *shape,
                        tensor_handle *ret_made)
{
    int32_t device_type, device_index;
    return !torch->device_type(like, &device_type) && !torch->device_index(like, &device_index) &&
           !torch->empty(shape->dims, shape->sizes, shape->strides, shape->type, device_type,
                         device_index, ret_made);
}

bool call_make_result(const struct call *call, const struct kiln_torch_work *work,
                      tensor_handle *ret_made)
{
    const struct pytorch *torch = &call->operators->torch;
    tensor_handle like = call->tensors[0];
    struct shape shape = { 0, work->dims, work->sizes, work->strides };
    return !torch->type(like, &shape.type) && make_tensor(torch, like, &shape, ret_made);
}

bool call_make_workspace(const struct call *call, uint64_t bytes, tensor_handle *ret_workspace)
{
    const struct pytorch *torch = &call->operators->torch;
    const int64_t size = (int64_t)bytes, step = 1;
    const struct shape space = { torch->uint8(), 1, &size, &step };
    return !bytes || make_tensor(torch, call->tensors[0], &space, ret_workspace);
}

bool call_copy(const struct call *call, tensor_handle tensor, const int64_t *strides,
               tensor_handle *ret_copy)
{
    const struct pytorch *torch = &call->operators->torch;
    struct shape shape = { .strides = strides };
    int64_t *sizes;
    if (torch->type(tensor, &shape.type) || torch->dims(tensor, &shape.dims) ||
        torch->sizes(tensor, &sizes))
        return false;
    shape.sizes = sizes;
    return make_tensor(torch, tensor, &shape, ret_copy) && !torch->copy(*ret_copy, tensor, 0);
}
