/* SPDX-License-Identifier: MIT */
/* first_pass measures the time from a job's start until its first forward pass through a network's
 * convolutions ends, with kernels from kilnd.  Prints one JSON object. --help lists the options.
 *
 * The layers are planned, loaded and launched one after another, as a framework does.  With
 * --ahead, all plans are requested at the start.  Uses only libkiln's public headers. */
#include "tests/gpu/started.h"

#include <kiln/kiln.h>

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MAX 512u
#define TIMEOUT_MS 600000
#define DATA 0x3c /* value of every byte of the operands; it makes small numbers in each type */

enum memory { MEMORY_X, MEMORY_W, MEMORY_Y, MEMORY_WORKSPACE, MEMORIES };

struct pass {
    const char *device_name, *file, *socket, *solver;
    uint32_t batch;
    int type, layout;
    bool ahead;
    struct kiln_problem layers[LAYERS_MAX];
    unsigned count;
    struct kiln_client *client;
    struct kiln_device *device;
    struct kiln_memory *memories[MEMORIES];
    struct kiln_run *runs[LAYERS_MAX];
    double begin, opened, asked, planning, loading, launching;
};

static const char usage[] = "Usage: first_pass [OPTION]... FILE\n"
                            "Runs the forward problems of FILE (MIOpenDriver command lines) once, "
                            "with kernels from kilnd.\n"
                            "  --device NAME     cuda:0, hip:0, opencl:0, ... (auto)\n"
                            "  --batch N, --type fp32|fp16|bf16, --layout NCHW|NHWC\n"
                            "                    instead of what the lines say\n"
                            "  --solver NAME     one to force\n"
                            "  --ahead           ask for all plans first\n"
                            "  --socket PATH     kilnd's socket\n";

static void die(const char *what, const struct kiln_error *err)
{
    fprintf(stderr, "first_pass: %s: %s\n%s", what, err->text, err->log);
    exit(1);
}

static void must(int rc, const char *what, const struct kiln_error *err)
{
    if (rc)
        die(what, err);
}

static int which(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    fprintf(stderr, "first_pass: '%s' is not understood\n%s", text, usage);
    exit(2);
}

static void take_option(struct pass *pass, int letter, char *value)
{
    static const char *const types[] = { "fp32", "fp16", "bf16" };
    static const char *const layouts[] = { "NCHW", "NHWC" };
    switch (letter) {
    case 'D': pass->device_name = value; break;
    case 'n': pass->batch = (uint32_t)strtoul(value, NULL, 10); break;
    case 't': pass->type = which(value, types, 3); break;
    case 'l': pass->layout = which(value, layouts, 2); break;
    case 's': pass->solver = value; break;
    case 'a': pass->ahead = true; break;
    case 'S': pass->socket = value; break;
    case 'h': fputs(usage, stdout); exit(0);
    default: fputs(usage, stderr); exit(2);
    }
}

static void read_options(struct pass *pass, int argc, char **argv)
{
    static const struct option table[] = {
        { "device", required_argument, NULL, 'D' },
        { "batch", required_argument, NULL, 'n' },
        { "type", required_argument, NULL, 't' },
        { "layout", required_argument, NULL, 'l' },
        { "solver", required_argument, NULL, 's' },
        { "ahead", no_argument, NULL, 'a' },
        { "socket", required_argument, NULL, 'S' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int letter;
    while ((letter = getopt_long(argc, argv, "", table, NULL)) != -1)
        take_option(pass, letter, optarg);
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        exit(2);
    }
    pass->file = argv[optind];
}

static void add_layer(struct pass *pass, const struct kiln_problem *problem)
{
    if (problem->direction != KILN_FORWARD || pass->count == LAYERS_MAX)
        return;
    struct kiln_problem *p = &pass->layers[pass->count++];
    *p = *problem;
    if (pass->batch)
        p->n = pass->batch;
    if (pass->type >= 0) {
        p->type = (uint32_t)pass->type;
        p->allow_tf32 = p->allow_tf32 && p->type == KILN_FLOAT32;
    }
    if (pass->layout >= 0)
        p->x_layout = p->w_layout = p->y_layout = (uint32_t)pass->layout;
}

static void read_layers(struct pass *pass)
{
    char text[2048];
    struct kiln_error err;
    FILE *file = fopen(pass->file, "re");
    if (!file) {
        perror(pass->file);
        exit(2);
    }
    while (fgets(text, sizeof(text), file)) {
        struct kiln_driver_line line = { .size = sizeof(line) };
        text[strcspn(text, "\n")] = '\0';
        int rc = kiln_driver_line_parse(text, &line, &err);
        if (rc == KILN_E_NOT_FOUND)
            continue;
        must(rc, pass->file, &err);
        for (unsigned i = 0; i < line.count; i++)
            add_layer(pass, &line.problems[i]);
    }
    fclose(file);
}

static struct kiln_plan_options plan_options(const struct pass *pass)
{
    const char *id = kiln_device_database_id(pass->device);
    return (struct kiln_plan_options){ .size = sizeof(struct kiln_plan_options),
                                       .target = kiln_device_target(pass->device),
                                       .database_id = *id ? id : NULL,
                                       .solver = pass->solver,
                                       .timeout_ms = TIMEOUT_MS };
}

static void open_all(struct pass *pass)
{
    struct kiln_error err;
    struct kiln_client_options options = { .size = sizeof(options),
                                           .socket_path = pass->socket,
                                           .timeout_ms = TIMEOUT_MS,
                                           .name = "first_pass" };
    must(kiln_client_open(&options, &pass->client, &err), "client", &err);
    must(kiln_device_open(pass->device_name, &pass->device, &err), "device", &err);
}

static int plan_is_ready(void *context, size_t index, struct kiln_plan *plan,
                         const struct kiln_error *err)
{
    (void)context, (void)index;
    if (!plan)
        die("plan", err);
    return 0;
}

/* Requests the plans of all layers in one batch, so that they are in the client's cache before the
 * first layer. */
static void ask_ahead(struct pass *pass)
{
    struct kiln_error err;
    struct kiln_plan_options options = plan_options(pass);
    const struct kiln_plan_batch batch = { .size = sizeof(batch),
                                           .problems = pass->layers,
                                           .count = pass->count,
                                           .options = &options,
                                           .ready = plan_is_ready };
    must(kiln_plan_batch(pass->client, &batch, &err), "plans", &err);
}

/* Returns the memory that all layers share for operand |which|. The memory grows to the size of the
 * largest layer, and is filled with DATA. */
static struct kiln_memory *memory_of(struct pass *pass, enum memory which, uint64_t bytes)
{
    struct kiln_memory **memory = &pass->memories[which];
    struct kiln_error err;
    if (*memory && kiln_memory_bytes(*memory) >= bytes)
        return *memory;
    must(kiln_device_finish(pass->device, &err), "device", &err);
    kiln_memory_destroy(*memory);
    must(kiln_memory_create(pass->device, bytes, memory, &err), "memory", &err);
    must(kiln_memory_fill(*memory, DATA, NULL, &err), "memory", &err);
    return *memory;
}

static void launch(struct pass *pass, const struct kiln_problem *layer, struct kiln_run *run,
                   uint64_t workspace)
{
    struct kiln_memory *tensors[3];
    struct kiln_error err;
    for (int i = 0; i < 3; i++) {
        uint64_t bytes = 0;
        must(kiln_problem_tensor(layer, i, NULL, &bytes, &err), "tensor", &err);
        tensors[i] = memory_of(pass, (enum memory)i, bytes);
    }
    struct kiln_memory *extra = workspace ? memory_of(pass, MEMORY_WORKSPACE, workspace) : NULL;
    const struct kiln_tensors all = { .size = sizeof(all),
                                      .x = tensors[KILN_TENSOR_X],
                                      .w = tensors[KILN_TENSOR_W],
                                      .y = tensors[KILN_TENSOR_Y],
                                      .workspace = extra };
    must(kiln_run_launch(run, &all, NULL, &err), "launch", &err);
}

static void do_layer(struct pass *pass, unsigned index)
{
    struct kiln_error err;
    struct kiln_plan *plan = NULL;
    struct kiln_plan_options options = plan_options(pass);
    double begin = started_now();
    must(kiln_plan_get(pass->client, &pass->layers[index], &options, &plan, &err), "plan", &err);
    double planned = started_now();
    must(kiln_run_create(pass->device, plan, &pass->runs[index], &err), "run", &err);
    double loaded = started_now();
    launch(pass, &pass->layers[index], pass->runs[index], kiln_plan_workspace(plan));
    pass->planning += planned - begin;
    pass->loading += loaded - planned;
    pass->launching += started_now() - loaded;
    kiln_plan_unref(plan);
}

static void close_all(struct pass *pass)
{
    for (unsigned i = 0; i < pass->count; i++)
        kiln_run_destroy(pass->runs[i]);
    for (int i = 0; i < MEMORIES; i++)
        kiln_memory_destroy(pass->memories[i]);
    kiln_device_close(pass->device);
    kiln_client_close(pass->client);
}

static void report(const struct pass *pass, double end)
{
    struct kiln_status status = { .size = sizeof(status) };
    struct kiln_error err;
    must(kiln_client_status(pass->client, &status, &err), "status", &err);
    printf("{\"what\": \"kiln\", \"device\": \"%s\", \"layers\": %u, \"ahead\": %s, "
           "\"seconds\": %.4f, \"open_s\": %.4f, \"ahead_s\": %.4f, \"plan_s\": %.4f, "
           "\"load_s\": %.4f, \"launch_s\": %.4f, \"requests\": %llu}\n",
           kiln_device_model(pass->device), pass->count, pass->ahead ? "true" : "false",
           end - pass->begin, pass->opened - pass->begin, pass->asked - pass->opened,
           pass->planning, pass->loading, pass->launching, (unsigned long long)status.requests);
}

int main(int argc, char **argv)
{
    static struct pass pass = { .device_name = "auto", .type = -1, .layout = -1 };
    struct kiln_error err;
    pass.begin = started_at(argv);
    read_options(&pass, argc, argv);
    read_layers(&pass);
    open_all(&pass);
    pass.opened = started_now();
    if (pass.ahead)
        ask_ahead(&pass);
    pass.asked = started_now();
    for (unsigned i = 0; i < pass.count; i++)
        do_layer(&pass, i);
    must(kiln_device_finish(pass.device, &err), "the pass", &err);
    report(&pass, started_now());
    close_all(&pass);
    return 0;
}
