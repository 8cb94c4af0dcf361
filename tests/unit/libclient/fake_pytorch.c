/* SPDX-License-Identifier: MIT */
#include "tests/unit/libclient/fake_pytorch.h"

#include "libclient/torch/pytorch.h"
#include "libclient/torch/torch.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_pytorch fake_pytorch;

static void (*ask)(void);
static void (*forward)(uint64_t *, uint64_t, uint64_t);
static void (*backward)(uint64_t *, uint64_t, uint64_t);

#define MEMORY ((char *)0x10000) /* never touched */

/* What an at::Tensor points to. An undefined tensor points to NULL. */
struct tensor {
    int64_t dims, sizes[6], strides[6];
    int32_t type, device_index;
    char *data;
    int64_t number; /* content of a tensor without dimensions */
};

struct list {
    size_t count;
    uint64_t items[12];
};

static struct tensor *tensor_of(tensor_handle handle) { return *(struct tensor **)handle; }

static int fake_tensor_new(tensor_handle *ret_undefined)
{
    *ret_undefined = calloc(1, sizeof(struct tensor *));
    assert_non_null(*ret_undefined);
    fake_pytorch.handles++;
    return 0;
}

static struct tensor *make_tensor(void)
{
    struct tensor *tensor = calloc(1, sizeof(*tensor));
    assert_non_null(tensor);
    tensor->device_index = 3;
    tensor->type = 6;
    tensor->data = MEMORY + 4096 * ++fake_pytorch.tensors;
    return tensor;
}

static tensor_handle hold(struct tensor *tensor)
{
    tensor_handle handle;
    (void)fake_tensor_new(&handle);
    *(struct tensor **)handle = tensor;
    return handle;
}

static int fake_tensor_delete(tensor_handle handle)
{
    struct tensor *tensor = tensor_of(handle);
    if (tensor)
        fake_pytorch.tensors--;
    free(tensor);
    free(handle);
    fake_pytorch.handles--;
    return 0;
}

static int fake_is_defined(tensor_handle handle, bool *ret_is_defined)
{
    *ret_is_defined = tensor_of(handle) != NULL;
    return 0;
}

static int fake_data(tensor_handle handle, void **ret_data)
{
    struct tensor *tensor = tensor_of(handle);
    *ret_data = tensor->dims ? (void *)tensor->data : &tensor->number;
    return 0;
}

static int fake_dims(tensor_handle handle, int64_t *ret_dims)
{
    *ret_dims = tensor_of(handle)->dims;
    return 0;
}

static int fake_sizes(tensor_handle handle, int64_t **ret_sizes)
{
    *ret_sizes = tensor_of(handle)->sizes;
    return 0;
}

static int fake_strides(tensor_handle handle, int64_t **ret_strides)
{
    *ret_strides = tensor_of(handle)->strides;
    return 0;
}

static int fake_type(tensor_handle handle, int32_t *ret_type)
{
    *ret_type = tensor_of(handle)->type;
    return 0;
}

static int fake_device_type(tensor_handle handle, int32_t *ret_type)
{
    (void)handle;
    *ret_type = 1;
    return 0;
}

static int fake_device_index(tensor_handle handle, int32_t *ret_index)
{
    *ret_index = tensor_of(handle)->device_index;
    return 0;
}

static int fake_empty(int64_t count, const int64_t *of_sizes, const int64_t *of_strides,
                      int32_t of_type, int32_t of_device, int32_t index, tensor_handle *ret_tensor)
{
    if (fake_pytorch.refuses_memory)
        return 1;
    assert_true(of_device == (count ? 1 : 0) && index == (count ? 3 : 0));
    struct tensor *tensor = make_tensor();
    fake_pytorch.workspace_bytes += count == 1 ? of_sizes[0] : 0;
    tensor->dims = count;
    tensor->type = of_type;
    for (int64_t i = 0; i < count; i++) {
        tensor->sizes[i] = of_sizes[i];
        tensor->strides[i] = of_strides[i];
    }
    *ret_tensor = hold(tensor);
    return 0;
}

static int fake_copy(tensor_handle to, tensor_handle from, int32_t non_blocking)
{
    const struct tensor *copied = tensor_of(from), *copy = tensor_of(to);
    assert_int_equal(non_blocking, 0);
    assert_int_equal(copy->type, copied->type);
    assert_memory_equal(copy->sizes, copied->sizes, sizeof(copy->sizes));
    fake_pytorch.copies++;
    fake_pytorch.copied_from = copied->data;
    fake_pytorch.copied_to = copy->data;
    memcpy(fake_pytorch.copied_strides, copy->strides, sizeof(copy->strides));
    return fake_pytorch.fails_to_copy;
}

static int32_t fake_uint8(void) { return 0; }
static int32_t fake_int64(void) { return 4; }
static int32_t fake_cpu(void) { return 0; }

static int fake_list_size(void *list, size_t *ret_size)
{
    *ret_size = ((struct list *)list)->count;
    return 0;
}

static int fake_list_get(void *list, size_t index, uint64_t *ret_value)
{
    *ret_value = ((struct list *)list)->items[index];
    return 0;
}

static int fake_list_delete(void *list)
{
    free(list);
    fake_pytorch.lists--;
    return 0;
}

static int fake_guard_new(int32_t device_index, void **ret_guard)
{
    fake_pytorch.device = device_index;
    *ret_guard = &fake_pytorch.device;
    return 0;
}

static int fake_guard_delete(void *guard)
{
    assert_ptr_equal(guard, &fake_pytorch.device);
    fake_pytorch.device = 0;
    return 0;
}

/* ---- registration and flags ---- */

static int fake_library_new(const char *namespace, const char *key, const char *file, uint32_t line,
                            void **ret_library)
{
    (void)file;
    (void)line;
    assert_string_equal(namespace, "aten");
    assert_string_equal(key, "CUDA");
    fake_pytorch.is_installed = true;
    *ret_library = &fake_pytorch;
    return 0;
}

static int fake_library_add(void *library, const char *name,
                            void (*function)(uint64_t *, uint64_t, uint64_t))
{
    assert_ptr_equal(library, &fake_pytorch);
    *(strcmp(name, "convolution") == 0 ? &forward : &backward) = function;
    return 0;
}

static int fake_library_delete(void *library)
{
    assert_ptr_equal(library, &fake_pytorch);
    fake_pytorch.is_installed = false;
    return 0;
}

static void *fake_context(void) { return fake_pytorch.flags; }
static bool fake_benchmark(const void *flags) { return ((const bool *)flags)[0]; }
static bool fake_deterministic(const void *flags) { return ((const bool *)flags)[1]; }
static bool fake_deterministic_algorithms(const void *flags) { return ((const bool *)flags)[2]; }
static bool fake_enabled(const void *flags) { return ((const bool *)flags)[3]; }

static int fake_precision(const void *flags, int backend, int operation)
{
    assert_true(backend == 1 && operation == 1);
    return ((const bool *)flags)[4] ? 2 : 1;
}

static void *const *fake_tracing(void) { return &fake_pytorch.tracing; }

/* ---- operators ---- */

/* PyTorch would follow a smaller number as a pointer. */
static void assert_numbers(struct ints ints)
{
    for (size_t i = 0; i < ints.count; i++)
        assert_true(ints.of[i] >= -((int64_t)1 << 62));
}

/* A C++ exception unwinds the stack as the end of a thread does. */
static _Noreturn void throw_error(void)
{
    fake_pytorch.has_thrown = true;
    pthread_exit(NULL);
}

static void fake_fail(const char *function, const char *file, uint32_t line, const char *message)
{
    assert_true(function && file && line);
    (void)snprintf(fake_pytorch.message, sizeof(fake_pytorch.message), "%s", message);
    throw_error();
}

static void run_operator(uint64_t keys)
{
    if (fake_pytorch.throws)
        throw_error();
    if (keys != FAKE_ASKED) {
        assert_int_equal(keys, FAKE_ORIGINAL);
        fake_pytorch.originals++;
        return;
    }
    if (fake_pytorch.changes_flag)
        fake_pytorch.flags[0] = !fake_pytorch.flags[0];
    if (fake_pytorch.changes_flag || fake_pytorch.tries_to_remember)
        fake_pytorch.was_remembered = kiln_torch_remember(NULL, NULL);
    ask();
}

static struct returned fake_convolution(uint64_t keys, tensor_handle x, tensor_handle w,
                                        const struct maybe_tensor *bias, struct ints stride,
                                        struct ints padding, struct ints dilation, bool transposed,
                                        struct ints output_padding, const int64_t *groups)
{
    assert_true(padding.count == 2 && dilation.count == 2);
    fake_pytorch.strides = stride.count;
    for (size_t i = 2; i < stride.count; i++)
        assert_int_equal(stride.of[i], 0);
    assert_true(output_padding.count == 2 && tensor_of(x) && tensor_of(w));
    assert_numbers(padding);
    assert_numbers((struct ints){ groups, 1 });
    assert_true(!bias->exists || bias->tensor);
    (void)transposed;
    run_operator(keys);
    return (struct returned){ { make_tensor() } };
}

static struct returned fake_convolution_with_flags(
    uint64_t keys, tensor_handle x, tensor_handle w, const struct maybe_tensor *bias,
    struct ints stride, struct ints padding, struct ints dilation, bool transposed,
    struct ints output_padding, const int64_t *groups, bool benchmark, bool deterministic,
    bool enabled, bool allow_tf32)
{
    const bool *flags = fake_pytorch.flags;
    assert_int_equal(keys, FAKE_ORIGINAL);
    assert_int_equal(benchmark, flags[0]);
    assert_int_equal(deterministic, flags[1] || flags[2]);
    assert_int_equal(enabled, flags[3]);
    assert_int_equal(allow_tf32, flags[4]);
    return fake_convolution(keys, x, w, bias, stride, padding, dilation, transposed, output_padding,
                            groups);
}

static struct returned fake_convolution_backward(uint64_t keys, tensor_handle dy, tensor_handle x,
                                                 tensor_handle w, struct maybe_ints bias_sizes,
                                                 struct ints stride, struct ints padding,
                                                 struct ints dilation, bool transposed,
                                                 struct ints output_padding, const int64_t *groups,
                                                 struct mask mask)
{
    assert_true(tensor_of(dy) && tensor_of(x) && tensor_of(w) && *groups > 0);
    assert_true(!bias_sizes.exists || bias_sizes.ints.of[0] == 4);
    assert_true(stride.count + padding.count + dilation.count + output_padding.count == 8);
    (void)transposed;
    assert_int_equal(fake_pytorch.device, 3);
    struct returned made = { { NULL } };
    fake_pytorch.mask = 0;
    for (int i = 0; i < 3; i++) {
        fake_pytorch.mask |= mask.of[i] << i;
        made.of[2 - i] = mask.of[i] ? make_tensor() : NULL;
    }
    run_operator(keys);
    return made;
}

static struct returned fake_transpose(tensor_handle tensor, int64_t one, int64_t other)
{
    assert_true(tensor_of(tensor) && one == 1 && other == -1);
    return (struct returned){ { make_tensor() } };
}

static tensor_handle fake_add(tensor_handle to, tensor_handle other, const struct scalar *by)
{
    int64_t number;
    assert_non_null(tensor_of(other));
    memcpy(&number, by, sizeof(number));
    fake_pytorch.added += (int)number;
    return to;
}

static struct scalar fake_item(tensor_handle tensor)
{
    struct scalar number = { { 0 } };
    memcpy(&number, &tensor_of(tensor)->number, sizeof(int64_t));
    return number;
}

/* ---- calls ---- */

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
#define TORCH_FUNCTION(returns, name, parameters, symbol) { symbol, (void (*)(void))fake_##name },
#include "libclient/torch/pytorch.def"
#undef TORCH_FUNCTION
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

void *const *fake_pytorch_functions(const char *const *names)
{
    static void *found[FUNCTIONS];
    for (size_t i = 0; i < FUNCTIONS; i++) {
        assert_string_equal(names[i], functions[i].name);
        memcpy(&found[i], &functions[i].function, sizeof(found[i]));
    }
    assert_null(names[FUNCTIONS]);
    return found;
}

void fake_pytorch_reset(void (*asked)(void))
{
    memset(&fake_pytorch, 0, sizeof(fake_pytorch));
    ask = asked;
}

static uint64_t value_of(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

static uint64_t make_list(size_t count, int64_t first, int64_t second, int64_t third)
{
    struct list *list = calloc(1, sizeof(*list));
    assert_non_null(list);
    fake_pytorch.lists++;
    list->count = count;
    list->items[0] = (uint64_t)first;
    list->items[1] = (uint64_t)second;
    list->items[2] = (uint64_t)third;
    return value_of(list);
}

static uint64_t make_optional(uint64_t content)
{
    uint64_t *place = malloc(sizeof(*place));
    assert_non_null(place);
    *place = content;
    return value_of(place);
}

static uint64_t make_operand(const struct fake_call *call, int number, char *memory)
{
    struct tensor *tensor = make_tensor();
    tensor->dims = call->dims ? call->dims : 4;
    tensor->type = call->type ? call->type : 6;
    tensor->data = memory + call->offset;
    for (int i = 0; i < tensor->dims; i++) {
        tensor->sizes[i] = i == 0 && call->batch ? call->batch : 2;
        tensor->strides[i] = call->is_last ? 1 : tensor->dims - i;
    }
    fake_pytorch.operands[number] = tensor->data;
    return value_of(hold(tensor));
}

static uint64_t make_bias(enum fake_bias bias)
{
    if (bias == FAKE_NONE)
        return 0;
    struct tensor *tensor = bias == FAKE_DEFINED ? make_tensor() : NULL;
    if (tensor) {
        tensor->dims = 1;
        tensor->sizes[0] = 4;
    }
    return make_optional(value_of(hold(tensor)));
}

static void make_rest(const struct fake_call *call, uint64_t *stack)
{
    stack[0] = make_list(call->strides ? call->strides : 2, 1, 1, 0);
    stack[1] = make_list(2, call->padding, call->padding, 0);
    stack[2] = make_list(2, 1, 1, 0);
    stack[3] = call->transposed;
    stack[4] = make_list(2, 0, 0, 0);
    stack[5] = (uint64_t)(call->groups ? call->groups : 1);
}

static struct fake_result take_results(const uint64_t *stack, int count)
{
    struct fake_result result = { { NULL } };
    for (int i = 0; i < count; i++) {
        tensor_handle handle = (tensor_handle)(uintptr_t)stack[i];
        result.data[i] = tensor_of(handle) ? tensor_of(handle)->data : NULL;
        (void)fake_tensor_delete(handle);
    }
    return result;
}

struct fake_result fake_forward(struct fake_call call)
{
    uint64_t stack[9];
    stack[0] = make_operand(&call, 0, MEMORY);
    stack[1] = make_operand(&call, 1, MEMORY + 256);
    stack[2] = make_bias(call.bias);
    make_rest(&call, stack + 3);
    forward(stack, 9, 1);
    return take_results(stack, 1);
}

struct fake_result fake_backward(struct fake_call call)
{
    uint64_t stack[11];
    for (int i = 0; i < 3; i++)
        stack[i] = make_operand(&call, i, MEMORY + 256 * i);
    stack[3] = call.bias_sizes ? make_optional(make_list(1, 4, 0, 0)) : 0;
    make_rest(&call, stack + 4);
    stack[10] =
        make_list(call.mask_count ? call.mask_count : 3, call.mask[0], call.mask[1], call.mask[2]);
    backward(stack, 11, 3);
    return take_results(stack, 3);
}
