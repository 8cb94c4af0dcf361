/* SPDX-License-Identifier: MIT */
/* failures: tests that failures on a real CUDA device return the right code and one message, and
 * that the device works afterwards.  Needs kilnd.  Prints every message; exits with 0 if all codes
 * are right.
 *
 *     failures          all failures except the following one
 *     failures fault    a kernel that fails, which makes the process unusable */
#include <kiln/kiln.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE "cuda:0"
#define SMALL ((uint64_t)2 << 20)
#define TOO_MUCH ((uint64_t)1 << 50)

static unsigned wrong;

static void expect(const char *what, int got, int wanted, const struct kiln_error *err)
{
    printf("%-28s %-12s %s\n", what, kiln_error_name(got), got ? err->text : "");
    if (got == wanted)
        return;
    printf("  WRONG: should be %s\n", kiln_error_name(wanted));
    wrong++;
}

static void must(const char *what, int rc, const struct kiln_error *err)
{
    if (!rc)
        return;
    fprintf(stderr, "failures: %s: %s\n", what, err->text);
    exit(2);
}

static struct kiln_problem problem_of_64_mib(void)
{
    return (struct kiln_problem){ .size = sizeof(struct kiln_problem),
                                  .direction = KILN_FORWARD,
                                  .spatial_dims = 2,
                                  .n = 1,
                                  .c = 1,
                                  .k = 16,
                                  .groups = 1,
                                  .in = { 1, 1024, 1024 },
                                  .filter = { 1, 1, 1 },
                                  .stride = { 1, 1, 1 },
                                  .dilation = { 1, 1, 1 } };
}

static struct kiln_plan *plan_for(struct kiln_client *client, const char *target)
{
    struct kiln_problem problem = problem_of_64_mib();
    struct kiln_plan_options options = { .size = sizeof(options),
                                         .target = target,
                                         .solver = "ConvDirectNaive" };
    struct kiln_plan *plan = NULL;
    struct kiln_error err;
    must("plan", kiln_plan_get(client, &problem, &options, &plan, &err), &err);
    return plan;
}

static void open_by(const char *name, int wanted)
{
    struct kiln_device *device = NULL;
    struct kiln_error err;
    expect(name, kiln_device_open(name, &device, &err), wanted, &err);
    kiln_device_close(device);
}

static void open_by_bad_names(void)
{
    struct kiln_device *devices[2];
    struct kiln_error err;
    size_t count;
    open_by("cuda:99", KILN_E_NOT_FOUND);
    open_by("cuda:-1", KILN_E_INVALID);
    open_by("cuda://GPU-nonsense", KILN_E_INVALID);
    open_by("cuda://GPU-00000000-1111-2222-3333-444444444444", KILN_E_NOT_FOUND);
    open_by("vulkan:0", KILN_E_INVALID);
    open_by("", KILN_E_INVALID);
    expect("cuda:0,cuda", kiln_device_open_list("cuda:0,cuda", devices, 2, &count, &err),
           KILN_E_INVALID, &err);
}

static struct kiln_memory *memory_of(struct kiln_device *device, uint64_t bytes)
{
    struct kiln_memory *memory = NULL;
    struct kiln_error err;
    must("memory", kiln_memory_create(device, bytes, &memory, &err), &err);
    return memory;
}

static void ask_for_too_much(struct kiln_device *device)
{
    struct kiln_memory *memory = NULL;
    struct kiln_error err;
    expect("1 PiB of memory", kiln_memory_create(device, TOO_MUCH, &memory, &err), KILN_E_NO_MEMORY,
           &err);
    kiln_memory_destroy(memory);
}

static void load_for_another(struct kiln_device *device, struct kiln_client *client)
{
    struct kiln_plan *plan = plan_for(client, "sm_80");
    struct kiln_run *run = NULL;
    struct kiln_error err;
    expect("a plan for sm_80", kiln_run_create(device, plan, &run, &err), KILN_E_INVALID, &err);
    kiln_run_destroy(run);
    kiln_plan_unref(plan);
}

static struct kiln_run *run_of(struct kiln_device *device, struct kiln_client *client)
{
    struct kiln_plan *plan = plan_for(client, kiln_device_target(device));
    struct kiln_run *run = NULL;
    struct kiln_error err;
    must("run", kiln_run_create(device, plan, &run, &err), &err);
    kiln_plan_unref(plan);
    return run;
}

static int launch(struct kiln_run *run, struct kiln_memory *const xwy[3], struct kiln_error *err)
{
    const struct kiln_tensors tensors = {
        .size = sizeof(tensors), .x = xwy[0], .w = xwy[1], .y = xwy[2]
    };
    return kiln_run_launch(run, &tensors, NULL, err);
}

static void launch_on_too_little(struct kiln_device *device, struct kiln_client *client)
{
    struct kiln_run *run = run_of(device, client);
    struct kiln_memory *x = memory_of(device, 2 * SMALL), *w = memory_of(device, SMALL);
    struct kiln_memory *y = memory_of(device, SMALL);
    struct kiln_error err;
    expect("an output of 2 MiB", launch(run, (struct kiln_memory *[]){ x, w, y }, &err),
           KILN_E_INVALID, &err);
    kiln_memory_destroy(y);
    y = memory_of(device, 32 * SMALL);
    expect("one of 64 MiB", launch(run, (struct kiln_memory *[]){ x, w, y }, &err), KILN_E_OK,
           &err);
    expect("its end", kiln_device_finish(device, &err), KILN_E_OK, &err);
    kiln_memory_destroy(x);
    kiln_memory_destroy(w);
    kiln_memory_destroy(y);
    kiln_run_destroy(run);
}

/* Launches a kernel that writes to an unmapped address: its output is a memory object that claims
 * to be larger than the memory that it wraps. */
static void launch_beyond(struct kiln_device *device, struct kiln_client *client)
{
    struct kiln_run *run = run_of(device, client);
    struct kiln_memory *x = memory_of(device, 2 * SMALL), *w = memory_of(device, SMALL);
    struct kiln_memory *own = memory_of(device, SMALL), *y = NULL;
    struct kiln_error err;
    int rc = kiln_memory_wrap(device, kiln_memory_native(own), 32 * SMALL, &y, &err);
    if (rc) {
        expect("2 MiB called 64 MiB", rc, KILN_E_INVALID, &err);
        return;
    }
    expect("a launch beyond memory", launch(run, (struct kiln_memory *[]){ x, w, y }, &err),
           KILN_E_OK, &err);
    expect("its end", kiln_device_finish(device, &err), KILN_E_GPU_FAULT, &err);
    expect("another launch", launch(run, (struct kiln_memory *[]){ x, w, y }, &err),
           KILN_E_GPU_FAULT, &err);
}

int main(int argc, char **argv)
{
    struct kiln_client *client = NULL;
    struct kiln_device *device = NULL;
    struct kiln_error err;
    open_by_bad_names();
    must("client", kiln_client_open(NULL, &client, &err), &err);
    must("device", kiln_device_open(DEVICE, &device, &err), &err);
    ask_for_too_much(device);
    load_for_another(device, client);
    launch_on_too_little(device, client);
    if (argc > 1 && strcmp(argv[1], "fault") == 0)
        launch_beyond(device, client);
    kiln_device_close(device);
    kiln_client_close(client);
    printf("%u wrong\n", wrong);
    return wrong ? 1 : 0;
}
