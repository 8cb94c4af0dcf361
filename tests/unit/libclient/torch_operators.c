/* SPDX-License-Identifier: MIT */
/* Tests libkiln-torch with a fake PyTorch. tests/python/test_torch.py tests it with a real one. */
#include "libclient/torch/table.h"
#include "libclient/torch/torch.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/fake_pytorch.h"

#include <kiln/run.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct kiln_torch_operators *operators;
    struct kiln_torch_choice *first, *second; /* what Python answers */
    bool remembers;
    int asked, launches;
    int launch_result, fails_at; /* the number of a launch that fails */
    struct kiln_native_tensors launched;
    void *stream;
};

static struct fixture *the; /* the fake functions have no other way to it */

static int launch(void *run, const struct kiln_native_tensors *tensors, void *err)
{
    assert_ptr_equal(run, (void *)0x1234);
    assert_null(err);
    the->launches++;
    the->launched = *tensors;
    return the->launches == the->fails_at ? 4 : the->launch_result;
}

static int stream(int32_t device, void **ret_stream)
{
    assert_int_equal(device, 3);
    *ret_stream = the->stream;
    return 0;
}

/* Python's operator: decides, and computes the result by the original one. */
static void on_asked(void)
{
    the->asked++;
    if (the->remembers)
        assert_true(kiln_torch_remember(the->first, the->second));
}

SET_UP(set_up)
{
    the = f;
    fake_pytorch_reset(on_asked);
    struct kiln_torch_setup setup = { .functions = fake_pytorch_functions(kiln_torch_symbols()),
                                      .operator_delete = free,
                                      .dispatch_key = "CUDA",
                                      .asked = FAKE_ASKED,
                                      .original = FAKE_ORIGINAL,
                                      .launch = launch,
                                      .stream = stream };
    f->operators = kiln_torch_new(&setup);
    assert_non_null(f->operators);
    assert_int_equal(kiln_torch_start(f->operators), 0);
    f->remembers = true;
}

TEAR_DOWN(tear_down)
{
    kiln_torch_stop(f->operators);
    assert_int_equal(fake_pytorch.handles, 0); /* neither leaked nor deleted twice */
    assert_int_equal(fake_pytorch.tensors, 0);
    assert_int_equal(fake_pytorch.lists, 0);
    assert_int_equal(fake_pytorch.device, 0);
    assert_false(fake_pytorch.is_installed);
}

FIXTURE(torch_operators, set_up, tear_down);

static const struct kiln_torch_work work = {
    .run = (void *)0x1234,
    .workspace = 64,
    .order = { 0, 1, 2 },
    .dims = 4,
    .sizes = { 2, 4, 6, 6 },
    .strides = { 144, 36, 6, 1 },
    .calls_max = -1,
};

static struct kiln_torch_choice *by_kiln(void)
{
    struct kiln_torch_choice *choice = kiln_torch_choice_new(&work);
    assert_non_null(choice);
    return choice;
}

static struct kiln_torch_choice *by_original(void)
{
    struct kiln_torch_choice *choice = kiln_torch_choice_new(NULL);
    assert_non_null(choice);
    return choice;
}

static void assert_counts(const struct kiln_torch_choice *choice, uint64_t kiln, uint64_t original)
{
    uint64_t counts[2];
    kiln_torch_choice_counts(choice, counts);
    assert_int_equal(counts[0], kiln);
    assert_int_equal(counts[1], original);
}

TEST_F(torch_operators, an_undecided_call_is_asked_each_time)
{
    f->remembers = false;
    fake_forward((struct fake_call){ 0 });
    fake_forward((struct fake_call){ 0 });
    assert_int_equal(f->asked, 2);
    assert_int_equal(f->launches, 0);
    assert_false(kiln_torch_remember(NULL, NULL)); /* no call is passed on now */
}

TEST_F(torch_operators, a_call_that_was_decided_for_kiln_is_launched_without_asking)
{
    f->first = by_kiln();
    f->stream = (void *)0x77;
    fake_forward((struct fake_call){ 0 });
    struct fake_result made = fake_forward((struct fake_call){ 0 });
    assert_int_equal(f->asked, 1);
    assert_int_equal(f->launches, 1);
    assert_ptr_equal(f->launched.stream, (void *)0x77);
    assert_int_equal(f->launched.workspace_bytes, 64);
    assert_non_null(f->launched.workspace);
    assert_ptr_equal(f->launched.x, fake_pytorch.operands[0]);
    assert_ptr_equal(f->launched.w, fake_pytorch.operands[1]);
    assert_ptr_equal(f->launched.y, made.data[0]);
    assert_counts(f->first, 1, 0);
}

TEST_F(torch_operators, a_call_that_was_decided_for_pytorch_goes_there_without_asking)
{
    f->first = by_original();
    fake_forward((struct fake_call){ 0 });
    fake_forward((struct fake_call){ .bias = FAKE_UNDEFINED });
    assert_int_equal(f->asked, 1);
    assert_int_equal(fake_pytorch.originals, 1);
    assert_counts(f->first, 0, 1);
}

TEST_F(torch_operators, another_size_stride_bias_flag_or_alignment_is_another_call)
{
    f->first = by_original();
    const struct fake_call calls[] = {
        { 0 },           { .batch = 3 },         { .is_last = true }, { .bias = FAKE_DEFINED },
        { .offset = 4 }, { .transposed = true }, { .groups = 2 },     { .padding = 1 },
        { .type = 5 },
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fake_forward(calls[i]);
        assert_int_equal(f->asked, i + 1);
        fake_forward(calls[i]);
        assert_int_equal(f->asked, i + 1);
    }
    int asked = f->asked;
    for (int flag = 0; flag < FAKE_FLAGS; flag++) {
        fake_pytorch.flags[flag] = !fake_pytorch.flags[flag];
        fake_forward(calls[0]);
        asked += flag != 2; /* two flags mean that kiln must be deterministic */
        assert_int_equal(f->asked, asked);
        fake_pytorch.flags[flag] = !fake_pytorch.flags[flag];
    }
}

TEST_F(torch_operators, flags_that_change_while_python_decides_prevent_remembering)
{
    f->remembers = false;
    fake_pytorch.changes_flag = true;
    fake_forward((struct fake_call){ 0 });
    assert_false(fake_pytorch.was_remembered);
}

TEST_F(torch_operators, a_bias_is_added_to_the_result)
{
    f->first = by_kiln();
    fake_forward((struct fake_call){ .bias = FAKE_DEFINED });
    assert_int_equal(fake_pytorch.added, 0);
    fake_forward((struct fake_call){ .bias = FAKE_DEFINED });
    assert_int_equal(fake_pytorch.added, 1); /* c10::Scalar(1) times the bias */
}

TEST_F(torch_operators, python_finds_out_why_a_launch_failed)
{
    f->first = by_kiln();
    fake_forward((struct fake_call){ 0 });
    f->launch_result = 4;
    f->remembers = false;
    fake_forward((struct fake_call){ 0 });
    assert_int_equal(f->asked, 2);
    assert_counts(f->first, 0, 0);
    kiln_torch_choice_leave(f->first);
    fake_forward((struct fake_call){ 0 });
    assert_int_equal(f->asked, 2);
    assert_int_equal(f->launches, 1);
    assert_counts(f->first, 0, 1);
}

TEST_F(torch_operators, gradients_that_python_computes_again_count_once)
{
    f->first = by_kiln();
    f->second = by_kiln();
    fake_backward((struct fake_call){ .mask = { true, true, false } });
    f->fails_at = 2;
    fake_backward((struct fake_call){ .mask = { true, true, false } });
    assert_int_equal(f->launches, 2);
    assert_int_equal(f->asked, 2);
    assert_counts(f->first, 0, 0); /* Python counts this call */
    assert_counts(f->second, 0, 0);
}

TEST_F(torch_operators, without_memory_for_the_result_python_is_asked)
{
    f->first = by_kiln();
    fake_forward((struct fake_call){ 0 });
    fake_pytorch.refuses_memory = true;
    fake_forward((struct fake_call){ 0 });
    assert_int_equal(f->asked, 2);
    assert_int_equal(f->launches, 0);
}

static struct kiln_torch_choice *by_kiln_with_a_copy(int operand)
{
    struct kiln_torch_work copying = work;
    copying.copies[operand] = 1;
    for (int i = 0; i < 4; i++)
        copying.operand_strides[operand][i] = 10 + i;
    return kiln_torch_choice_new(&copying);
}

TEST_F(torch_operators, an_operand_with_other_strides_is_copied_before_the_launch)
{
    f->first = by_kiln_with_a_copy(1);
    fake_forward((struct fake_call){ 0 });
    fake_forward((struct fake_call){ 0 });
    assert_int_equal(f->asked, 1);
    assert_int_equal(fake_pytorch.copies, 1);
    assert_ptr_equal(fake_pytorch.copied_from, fake_pytorch.operands[1]);
    assert_int_equal(fake_pytorch.copied_strides[3], 13);
    assert_ptr_equal(f->launched.x, fake_pytorch.operands[0]);
    assert_ptr_equal(f->launched.w, fake_pytorch.copied_to);
    assert_counts(f->first, 1, 0);
}

TEST_F(torch_operators, the_input_of_a_weights_gradient_is_copied)
{
    f->second = by_kiln_with_a_copy(1);
    for (int i = 0; i < 2; i++)
        fake_backward((struct fake_call){ .mask = { false, true, false } });
    assert_ptr_equal(fake_pytorch.copied_from, fake_pytorch.operands[1]);
    assert_ptr_equal(f->launched.w, fake_pytorch.copied_to);
}

TEST_F(torch_operators, python_runs_a_call_whose_operand_cannot_be_copied)
{
    f->first = by_kiln_with_a_copy(0);
    fake_forward((struct fake_call){ 0 });
    fake_pytorch.fails_to_copy = true;
    fake_forward((struct fake_call){ 0 });
    assert_int_equal(f->asked, 2);
    assert_int_equal(f->launches, 0);
    assert_counts(f->first, 0, 0);
}

TEST_F(torch_operators, after_a_limited_number_of_calls_python_decides_again)
{
    struct kiln_torch_work limited = work;
    limited.calls_max = 2;
    f->first = kiln_torch_choice_new(&limited);
    for (int i = 0; i < 4; i++)
        fake_forward((struct fake_call){ 0 });
    assert_int_equal(f->launches, 2);
    assert_int_equal(f->asked, 2);
}

TEST_F(torch_operators, a_limited_choice_counts_on_the_default_stream_only)
{
    struct kiln_torch_work limited = work;
    limited.calls_max = 100;
    f->first = kiln_torch_choice_new(&limited);
    fake_forward((struct fake_call){ 0 });
    f->stream = (void *)0x77;
    fake_forward((struct fake_call){ 0 });
    assert_int_equal(f->launches, 0);
    assert_int_equal(f->asked, 2);
}

TEST_F(torch_operators, both_gradients_are_launched_and_the_bias_gradient_is_pytorchs)
{
    f->first = by_kiln();
    f->second = by_kiln();
    fake_backward((struct fake_call){ .mask = { true, true, true } });
    struct fake_result made = fake_backward((struct fake_call){ .mask = { true, true, true } });
    assert_int_equal(f->launches, 2);
    assert_ptr_equal(f->launched.x, fake_pytorch.operands[0]); /* the gradient of the output */
    assert_ptr_equal(f->launched.w, fake_pytorch.operands[1]); /* the input */
    assert_ptr_equal(f->launched.y, made.data[1]);
    assert_non_null(made.data[0]);
    assert_non_null(made.data[2]);
    assert_int_equal(fake_pytorch.originals, 1);
    assert_int_equal(fake_pytorch.mask, 4);
    assert_counts(f->first, 1, 0);
    assert_counts(f->second, 1, 0);
}

static struct kiln_torch_choice *by_kiln_with_a_workspace(uint64_t bytes)
{
    struct kiln_torch_work other = work;
    other.workspace = bytes;
    return kiln_torch_choice_new(&other);
}

TEST_F(torch_operators, both_gradients_share_a_workspace)
{
    const uint64_t sizes[][2] = { { 64, 128 }, { 128, 64 }, { 64, 0 }, { 0, 0 } };
    for (int64_t i = 0; i < 4; i++) {
        f->first = by_kiln_with_a_workspace(sizes[i][0]);
        f->second = by_kiln_with_a_workspace(sizes[i][1]);
        struct fake_call call = { .mask = { true, true, false }, .padding = i };
        fake_backward(call);
        fake_pytorch.workspace_bytes = 0;
        fake_backward(call);
        assert_int_equal(fake_pytorch.workspace_bytes, i == 3 ? 0 : i == 2 ? 64 : 128);
        assert_int_equal(f->launched.workspace_bytes, sizes[i][1]);
        assert_int_equal(f->launched.workspace != NULL, sizes[i][1] != 0);
    }
}

TEST_F(torch_operators, a_gradient_that_is_pytorchs_is_computed_there_on_the_tensors_device)
{
    f->first = by_kiln();
    f->second = by_original();
    for (int i = 0; i < 2; i++)
        fake_backward((struct fake_call){ .mask = { true, true, false } });
    assert_int_equal(f->launches, 1);
    assert_int_equal(fake_pytorch.mask, 2);
    assert_counts(f->first, 1, 0);
    assert_counts(f->second, 0, 1);
}

TEST_F(torch_operators, a_gradient_that_is_not_wanted_is_an_undefined_tensor)
{
    f->second = by_kiln();
    fake_backward((struct fake_call){ .mask = { false, true, false }, .bias_sizes = true });
    struct fake_result made =
        fake_backward((struct fake_call){ .mask = { false, true, false }, .bias_sizes = true });
    assert_null(made.data[0]);
    assert_non_null(made.data[1]);
    assert_null(made.data[2]);
    assert_int_equal(fake_pytorch.originals, 0);
}

TEST_F(torch_operators, pytorch_checks_a_call_that_wants_no_gradient)
{
    for (int i = 0; i < 2; i++)
        fake_backward((struct fake_call){ 0 });
    assert_int_equal(f->asked, 1);
    assert_int_equal(fake_pytorch.originals, 1);
}

TEST_F(torch_operators, the_gradients_that_are_wanted_are_part_of_the_key)
{
    f->first = by_kiln();
    fake_backward((struct fake_call){ .mask = { true, false, false } });
    f->second = by_kiln();
    fake_backward((struct fake_call){ .mask = { true, true, false } });
    assert_int_equal(f->asked, 2);
}

TEST_F(torch_operators, a_tensor_with_more_dimensions_is_never_remembered)
{
    f->remembers = false;
    fake_pytorch.tries_to_remember = true;
    fake_forward((struct fake_call){ .dims = 6 });
    assert_false(fake_pytorch.was_remembered);
}

TEST_F(torch_operators, a_long_list_reaches_pytorch_whole_and_is_never_remembered)
{
    f->remembers = false;
    fake_pytorch.tries_to_remember = true;
    fake_forward((struct fake_call){ .strides = 12 });
    assert_int_equal(fake_pytorch.strides, 12);
    assert_false(fake_pytorch.was_remembered);
}

TEST_F(torch_operators, a_call_that_is_traced_is_asked)
{
    f->first = by_kiln();
    fake_forward((struct fake_call){ 0 });
    f->remembers = false;
    fake_pytorch.tracing = &fake_pytorch;
    fake_forward((struct fake_call){ 0 });
    assert_int_equal(f->asked, 2);
    assert_int_equal(f->launches, 0);
}

TEST_F(torch_operators, numbers_that_pytorch_would_take_for_pointers_are_replaced)
{
    f->remembers = false;
    fake_forward((struct fake_call){ .padding = INT64_MIN });
    fake_forward((struct fake_call){ .groups = -((int64_t)1 << 62) - 1 });
    assert_int_equal(f->asked, 2);
}

TEST_F(torch_operators, calls_beyond_a_full_table_are_asked)
{
    f->first = by_original();
    for (unsigned i = 0; i < ENTRIES_MAX; i++)
        fake_forward((struct fake_call){ .padding = i });
    fake_forward((struct fake_call){ .padding = ENTRIES_MAX - 1 });
    assert_int_equal(f->asked, ENTRIES_MAX);
    f->remembers = false;
    fake_pytorch.tries_to_remember = true;
    fake_forward((struct fake_call){ .padding = ENTRIES_MAX });
    assert_int_equal(f->asked, ENTRIES_MAX + 1);
    assert_false(fake_pytorch.was_remembered);
}

static void *run_forward(void *call)
{
    fake_forward(*(struct fake_call *)call);
    return NULL;
}

static void *run_backward(void *call)
{
    fake_backward(*(struct fake_call *)call);
    return NULL;
}

/* Runs a call that throws, in a thread that ends by it. */
static void run_and_throw(void *(*run)(void *), struct fake_call *call)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, call), 0);
    await_thread(thread, NULL);
    assert_true(fake_pytorch.has_thrown);
}

TEST_F(torch_operators, an_exception_leaves_no_handle_behind)
{
    struct fake_call call = { .bias = FAKE_DEFINED };
    f->first = by_original();
    fake_forward(call);
    fake_pytorch.throws = true;
    run_and_throw(run_forward, &call);
}

TEST_F(torch_operators, a_mask_without_three_elements_is_an_error_as_in_pytorch)
{
    for (size_t count = 2; count <= 4; count += 2) {
        struct fake_call call = { .mask = { true, true, false }, .mask_count = count };
        fake_pytorch.has_thrown = false;
        run_and_throw(run_backward, &call);
        assert_int_equal(fake_pytorch.message[strlen("Tried to convert a List with ")],
                         '0' + (int)count);
    }
    assert_int_equal(f->asked, 0);
}

static void *run_calls(void *call)
{
    for (int i = 0; i < 1000; i++)
        fake_forward(*(struct fake_call *)call);
    return NULL;
}

TEST_F(torch_operators, threads_count_every_call)
{
    f->first = by_original();
    fake_forward((struct fake_call){ 0 });
    pthread_t threads[4];
    struct fake_call call = { 0 };
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_calls, &call), 0);
    for (int i = 0; i < 4; i++)
        await_thread(threads[i], NULL);
    assert_counts(f->first, 0, 4000);
}
