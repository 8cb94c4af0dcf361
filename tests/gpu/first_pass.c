/* SPDX-License-Identifier: MIT */
/* first_pass measures the time from a job's start until its first forward pass through a network's
 * convolutions ends, with kernels from kilnd.  Prints one JSON object. --help lists the options.
 *
 * The layers are planned, loaded and launched one after another, as a framework does.  With
 * --ahead, all plans are requested at the start.  Uses only libkiln's public headers. */
#include "tests/gpu/network.h"
#include "tests/gpu/started.h"

#include <kiln/kiln.h>

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 600000

struct pass {
    const char *device_name, *file, *socket, *solver;
    uint32_t batch;
    int type, layout;
    bool ahead;
    struct network network;
    struct kiln_client *client;
    struct kiln_run *runs[NETWORK_MAX];
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

static void change_layer(const struct pass *pass, struct kiln_problem *p)
{
    if (pass->batch)
        p->n = pass->batch;
    if (pass->type >= 0) {
        p->type = (uint32_t)pass->type;
        p->allow_tf32 = p->allow_tf32 && p->type == KILN_FLOAT32;
    }
    if (pass->layout >= 0)
        p->x_layout = p->w_layout = p->y_layout = (uint32_t)pass->layout;
}

/* Keeps the forward problems of the file. */
static void read_layers(struct pass *pass)
{
    struct network *n = &pass->network;
    unsigned count = 0;
    network_read(n, pass->file);
    for (unsigned i = 0; i < n->count; i++) {
        if (n->problems[i].direction == KILN_FORWARD)
            n->problems[count++] = n->problems[i];
    }
    n->count = count;
    for (unsigned i = 0; i < count; i++)
        change_layer(pass, &n->problems[i]);
}

static struct kiln_plan_options plan_options(const struct pass *pass)
{
    const char *id = kiln_device_database_id(pass->network.device);
    return (struct kiln_plan_options){ .size = sizeof(struct kiln_plan_options),
                                       .target = kiln_device_target(pass->network.device),
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
    network_must(kiln_client_open(&options, &pass->client, &err), "client", &err);
    network_must(kiln_device_open(pass->device_name, &pass->network.device, &err), "device", &err);
}

static int plan_is_ready(void *context, size_t index, struct kiln_plan *plan,
                         const struct kiln_error *err)
{
    (void)context, (void)index;
    if (!plan)
        network_die("plan", err);
    return 0;
}

/* Requests the plans of all layers in one batch, so that they are in the client's cache before the
 * first layer. */
static void ask_ahead(struct pass *pass)
{
    struct kiln_error err;
    struct kiln_plan_options options = plan_options(pass);
    const struct kiln_plan_batch batch = { .size = sizeof(batch),
                                           .problems = pass->network.problems,
                                           .count = pass->network.count,
                                           .options = &options,
                                           .ready = plan_is_ready };
    network_must(kiln_plan_batch(pass->client, &batch, &err), "plans", &err);
}

static void do_layer(struct pass *pass, unsigned index)
{
    struct kiln_error err;
    struct kiln_plan *plan = NULL;
    struct kiln_plan_options options = plan_options(pass);
    double begin = started_now();
    network_must(kiln_plan_get(pass->client, &pass->network.problems[index], &options, &plan, &err),
                 "plan", &err);
    double planned = started_now();
    network_must(kiln_run_create(pass->network.device, plan, &pass->runs[index], &err), "run",
                 &err);
    double loaded = started_now();
    network_launch(&pass->network, index, pass->runs[index], kiln_plan_workspace(plan));
    pass->planning += planned - begin;
    pass->loading += loaded - planned;
    pass->launching += started_now() - loaded;
    kiln_plan_unref(plan);
}

static void close_all(struct pass *pass)
{
    for (unsigned i = 0; i < pass->network.count; i++)
        kiln_run_destroy(pass->runs[i]);
    network_done(&pass->network);
    kiln_client_close(pass->client);
}

static void report(const struct pass *pass, double end)
{
    struct kiln_status status = { .size = sizeof(status) };
    struct kiln_error err;
    network_must(kiln_client_status(pass->client, &status, &err), "status", &err);
    printf("{\"what\": \"kiln\", \"device\": \"%s\", \"layers\": %u, \"ahead\": %s, "
           "\"seconds\": %.4f, \"open_s\": %.4f, \"ahead_s\": %.4f, \"plan_s\": %.4f, "
           "\"load_s\": %.4f, \"launch_s\": %.4f, \"requests\": %llu}\n",
           kiln_device_model(pass->network.device), pass->network.count,
           pass->ahead ? "true" : "false", end - pass->begin, pass->opened - pass->begin,
           pass->asked - pass->opened, pass->planning, pass->loading, pass->launching,
           (unsigned long long)status.requests);
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
    for (unsigned i = 0; i < pass.network.count; i++)
        do_layer(&pass, i);
    network_must(kiln_device_finish(pass.network.device, &err), "the pass", &err);
    report(&pass, started_now());
    close_all(&pass);
    return 0;
}
