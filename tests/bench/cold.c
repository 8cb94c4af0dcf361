/* SPDX-License-Identifier: MIT */
#include "tests/bench/cold.h"

#include <kiln/admin.h>

#include <stdio.h>
#include <string.h>

#define COLD_MAX 64
/* time limit of a batch; long enough for COLD_MAX slow compiles on one CPU */
#define TIMEOUT_MS 300000

/* The loop of a direct convolution, small enough to compile fast. */
#define BODY                                                        \
    "    float sum = BENCH_ID;\n"                                   \
    "    for (int c = 0; c < channels; c++)\n"                      \
    "        for (int y = 0; y < 3; y++)\n"                         \
    "            for (int x = 0; x < 3; x++)\n"                     \
    "                sum += in[(c * 34 + y) * 34 + x + i % 32] *\n" \
    "                       weights[(c * 3 + y) * 3 + x];\n"        \
    "    out[i] = sum;\n"                                           \
    "}\n"

static const char opencl_source[] =
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void bench(__global float *out, __global const float *in, __global const float *weights,\n"
    "           int channels)\n"
    "{\n"
    "    int i = (int)get_global_id(0);\n" BODY;

/* Uses only builtins, because hiprtc and a clang without HIP's headers must compile it. */
static const char amd_source[] =
    "extern \"C\" __attribute__((global))\n"
    "void bench(float *out, const float *in, const float *weights, int channels)\n"
    "{\n"
    "    int i = (int)(__builtin_amdgcn_workgroup_id_x() * 64u +\n"
    "                  __builtin_amdgcn_workitem_id_x());\n" BODY;

static const struct {
    const char *toolchain, *target, *program, *source;
} known[] = {
    { "hiprtc", "gfx90a", "bench.cpp", amd_source },
    { "opencl", NULL, "bench.cl", opencl_source },
    { "clang", "gfx90a", "bench.cpp", amd_source },
};

#define KNOWN (sizeof(known) / sizeof(known[0]))

static enum kiln_code fail_client(const struct kiln_error *error, struct kiln_err *err)
{
    return kiln_fail(err, (enum kiln_code)error->code, "kiln: %s", error->text);
}

static enum kiln_code request_json(struct kiln_client *client, const char *request,
                                   struct json **ret_json, struct kiln_err *err)
{
    struct kiln_error error = { 0 };
    char *text = NULL;
    const struct kiln_admin_call call = { .size = sizeof(call),
                                          .request = request,
                                          .timeout_ms = TIMEOUT_MS };
    if (kiln_admin(client, &call, &text, &error))
        return fail_client(&error, err);
    enum kiln_code rc = json_parse(bytes_of_text(text), request, ret_json, err);
    kiln_free(text);
    return rc;
}

static const struct json *find_row(const struct json *answer, const char *name)
{
    const struct json *row = json_first(json_get(answer, "toolchains"));
    while (row && strcmp(json_get_text(row, "name", ""), name) != 0)
        row = json_next(row);
    return row;
}

static size_t index_of(const char *toolchain)
{
    size_t i = 0;
    while (i < KNOWN && strcmp(known[i].toolchain, toolchain) != 0)
        i++;
    return i;
}

enum kiln_code cold_find(struct kiln_client *client, const char *toolchain, struct cold *ret_cold,
                         struct kiln_err *err)
{
    size_t i = index_of(toolchain);
    if (i == KNOWN)
        return kiln_fail(err, KILN_INVALID, "no benchmark source for toolchain '%s'", toolchain);
    KILN_AUTO(json) struct json *answer = NULL;
    enum kiln_code rc = request_json(client, "toolchains", &answer, err);
    if (rc)
        return rc;
    const struct json *row = find_row(answer, toolchain);
    if (!row)
        return kiln_fail(err, KILN_UNAVAILABLE, "no toolchain '%s' here", toolchain);
    const char *target = known[i].target;
    if (!target)
        target = json_get_text(json_first(json_get(row, "targets")), "target", "");
    if (!target[0] || strlen(target) >= COLD_TARGET_MAX)
        return kiln_fail(err, KILN_UNAVAILABLE, "toolchain '%s' names no target", toolchain);
    *ret_cold = (struct cold){ .toolchain = known[i].toolchain,
                               .program = known[i].program,
                               .source = known[i].source };
    strcpy(ret_cold->target, target);
    return KILN_OK;
}

enum kiln_code cold_find_any(struct kiln_client *client, struct cold *ret_cold,
                             struct kiln_err *err)
{
    for (size_t i = 0; i < KNOWN; i++) {
        enum kiln_code rc = cold_find(client, known[i].toolchain, ret_cold, err);
        if (rc != KILN_UNAVAILABLE)
            return rc;
    }
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "no compiler here: install libamdhip64-5 or pocl-opencl-icd");
}

void cold_options(uint64_t id, char options[COLD_OPTIONS_MAX])
{
    snprintf(options, COLD_OPTIONS_MAX, "-DBENCH_ID=%llu", (unsigned long long)id);
}

struct kiln_kernel_source cold_request(const struct cold *cold, const char *options)
{
    return (struct kiln_kernel_source){
        .size = sizeof(struct kiln_kernel_source),
        .target = cold->target,
        .toolchain = cold->toolchain,
        .program = cold->program,
        .options = options,
        .source = cold->source,
        .priority = KILN_INTERACTIVE,
    };
}

struct result {
    size_t answers, failures;
    struct kiln_error first;
};

static int on_ready(void *context, size_t index, struct kiln_kernel *kernel,
                    const struct kiln_error *err)
{
    (void)index;
    struct result *o = context;
    o->answers++;
    if (kernel)
        return 0;
    if (o->failures++ == 0 && err)
        o->first = *err;
    return 0;
}

enum kiln_code cold_fetch(struct kiln_client *client, const struct cold *cold, uint64_t first_id,
                          size_t count, struct kiln_err *err)
{
    char options[COLD_MAX][COLD_OPTIONS_MAX];
    struct kiln_kernel_source sources[COLD_MAX];
    if (count > COLD_MAX)
        return kiln_fail(err, KILN_INVALID, "%zu kernels exceed %d", count, COLD_MAX);
    for (size_t i = 0; i < count; i++) {
        cold_options(first_id + i, options[i]);
        sources[i] = cold_request(cold, options[i]);
    }
    struct result o = { 0 };
    struct kiln_error error = { 0 };
    const struct kiln_kernel_batch batch = { .size = sizeof(batch),
                                             .sources = sources,
                                             .count = count,
                                             .ready = on_ready,
                                             .context = &o,
                                             .timeout_ms = TIMEOUT_MS };
    if (kiln_kernel_fetch_batch(client, &batch, &error))
        return fail_client(&error, err);
    if (o.failures)
        return fail_client(&o.first, err);
    if (o.answers != count)
        return kiln_fail(err, KILN_IO, "%zu of %zu kernels were answered", o.answers, count);
    return KILN_OK;
}

enum kiln_code cold_connect(const char *socket, struct kiln_client **ret_client,
                            struct kiln_err *err)
{
    struct kiln_client_options options = {
        .size = sizeof(options),
        .socket_path = socket,
        .timeout_ms = TIMEOUT_MS,
        .name = "bench",
    };
    struct kiln_client *client;
    struct kiln_error error = { 0 };
    if (kiln_client_open(&options, &client, &error))
        return fail_client(&error, err);
    if (kiln_client_ping(client, 0, NULL, &error)) {
        kiln_client_close(client);
        return fail_client(&error, err);
    }
    *ret_client = client;
    return KILN_OK;
}

static const struct json *walk_path(const struct json *object, const char *path)
{
    char head[64];
    const char *dot = strchr(path, '.');
    if (!dot)
        return json_get(object, path);
    snprintf(head, sizeof(head), "%.*s", (int)(dot - path), path);
    return json_get(json_get(object, head), dot + 1);
}

enum kiln_code cold_counter(struct kiln_client *client, const char *name, uint64_t *ret_value,
                            struct kiln_err *err)
{
    KILN_AUTO(json) struct json *stats = NULL;
    enum kiln_code rc = request_json(client, "stats", &stats, err);
    if (rc)
        return rc;
    const struct json *value = walk_path(stats, name);
    if (!json_is_number(value))
        return kiln_fail(err, KILN_INVALID, "kilnd's stats have no counter '%s'", name);
    *ret_value = (uint64_t)json_as_number(value, 0);
    return KILN_OK;
}
