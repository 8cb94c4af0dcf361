/* SPDX-License-Identifier: MIT */
#include "common/protocol/messages.h"
#include "engine/compile/arguments.h"
#include "engine/compile/compiler.h"
#include "engine/compile/identity.h"
#include "engine/compile/opencl_library.h"

#include <stdio.h>
#include <string.h>

#define DEVICES_MAX 8
#define KERNELS_MAX 256u
#define SIZES_TEXT_MAX 4096

struct opencl {
    struct compiler base;
    struct opencl_library cl;
    struct opencl_device devices[DEVICES_MAX];
    void *contexts[DEVICES_MAX]; /* owned by the driver until the process ends */
    size_t count;
};

struct build {
    const struct opencl_library *cl;
    void *context;
    void *device;
    void *program;
    void *source;
    void *headers[LIMIT_HEADERS];
    char *names[LIMIT_HEADERS];
    uint32_t header_count;
};

static void build_done(struct build *b)
{
    for (uint32_t i = 0; i < b->header_count; i++) {
        free(b->names[i]);
        if (b->headers[i])
            b->cl->clReleaseProgram(b->headers[i]);
    }
    if (b->source && b->source != b->program)
        b->cl->clReleaseProgram(b->source);
    if (b->program)
        b->cl->clReleaseProgram(b->program);
}

static enum compile_end judge_result(int result, const char *call, struct kiln_err *err)
{
    if (result == OPENCL_OUT_OF_HOST_MEMORY)
        return compile_no_memory(err);
    kiln_fail(err, KILN_COMPILE_FAILED, "the compiler reports errors (%s: %d)", call, result);
    return COMPILE_REFUSED;
}

static void translate_option(struct arguments *a, const char *option)
{
    static const struct {
        const char *ours;
        const char *theirs;
    } words[] = {
        { "-O0", "-cl-opt-disable" },
        { "-O1", "" },
        { "-O2", "" },
        { "-O3", "" },
        { "-ffast-math", "-cl-fast-relaxed-math" },
        { "-ffinite-math-only", "-cl-finite-math-only" },
        { "-fno-signed-zeros", "-cl-no-signed-zeros" },
        { "-ffp-contract=fast", "-cl-mad-enable" },
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(option, words[i].ours) == 0)
            option = words[i].theirs;
    }
    if (strncmp(option, "-std=", strlen("-std=")) == 0)
        arguments_add(a, "-cl-std=%s", option + strlen("-std="));
    else if (*option)
        arguments_add(a, "%s", option);
}

static char *options_of(const struct compile_job *job)
{
    ARGUMENTS_AUTO struct arguments a = { 0 };
    arguments_add(&a, "-DKILN_OPENCL=1");
    if (!options_name(job->options, "-std=") && !options_name(job->options, "-cl-std="))
        arguments_add(&a, "-cl-std=CL1.2");
    arguments_add_options(&a, job->options, translate_option);
    return a.failed ? NULL : arguments_join(&a);
}

static void *program_of(const struct build *b, struct bytes text)
{
    const char *start = text.size ? (const char *)text.data : "";
    int result = 0;
    void *program = b->cl->clCreateProgramWithSource(b->context, 1, &start, &text.size, &result);
    return result == 0 ? program : NULL;
}

static bool take_headers(struct build *b, const struct compile_job *job)
{
    struct reader r = reader_of(job->headers);
    for (uint32_t i = 0; i < job->header_count; i++) {
        struct message_header header = message_header_read(&r);
        b->header_count++;
        b->names[i] = bytes_to_text(header.name);
        b->headers[i] = program_of(b, header.text);
        if (!b->names[i] || !b->headers[i])
            return false;
    }
    return true;
}

static void write_log(const struct build *b, void *program)
{
    size_t size = 0;
    if (!program || b->cl->clGetProgramBuildInfo(program, b->device, OPENCL_PROGRAM_BUILD_LOG, 0,
                                                 NULL, &size) != 0)
        return;
    KILN_AUTO(mem) char *log = size > 1 && size < LIMIT_CODE_OBJECT ? calloc(1, size) : NULL;
    if (log && b->cl->clGetProgramBuildInfo(program, b->device, OPENCL_PROGRAM_BUILD_LOG, size, log,
                                            NULL) == 0)
        compiler_log(log, strlen(log));
}

static enum compile_end build_program(struct build *b, const char *options, struct kiln_err *err)
{
    int result;
    if (b->header_count == 0) {
        result = b->cl->clBuildProgram(b->source, 1, &b->device, options, NULL, NULL);
        write_log(b, b->source);
        b->program = b->source;
        return result ? judge_result(result, "clBuildProgram", err) : COMPILE_DONE;
    }
    result = b->cl->clCompileProgram(b->source, 1, &b->device, options, b->header_count, b->headers,
                                     (const char **)b->names, NULL, NULL);
    write_log(b, b->source);
    if (result)
        return judge_result(result, "clCompileProgram", err);
    b->program =
        b->cl->clLinkProgram(b->context, 1, &b->device, "", 1, &b->source, NULL, NULL, &result);
    if (result)
        write_log(b, b->program);
    return result ? judge_result(result, "clLinkProgram", err) : COMPILE_DONE;
}

static void append_size(const struct build *b, void *kernel, char *list, size_t size)
{
    size_t group[3] = { 0 };
    char entry[96];
    if (b->cl->clGetKernelWorkGroupInfo(kernel, b->device, OPENCL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                        sizeof(group), group, NULL) != 0 ||
        !group[0])
        return;
    snprintf(entry, sizeof(entry), "%zu-%zu-%zu-goffs0-smallgrid", group[0], group[1], group[2]);
    size_t used = strlen(list);
    if (!strstr(list, entry) && used + strlen(entry) + 2 < size)
        snprintf(list + used, size - used, "%s%s", used ? "," : "", entry);
}

/* Makes PoCL put into the binary a version of each kernel for the work-group size that the kernel
 * requires. Otherwise each launch would build and link that version, which takes 30 ms and needs a
 * linker on the client's machine. Other drivers ignore this. */
static void ask_for_required_sizes(const struct build *b)
{
    void *kernels[KERNELS_MAX];
    unsigned count = 0;
    char list[SIZES_TEXT_MAX] = "";
    unsetenv("POCL_BINARY_SPECIALIZE_WG");
    if (b->cl->clCreateKernelsInProgram(b->program, KERNELS_MAX, kernels, &count) != 0)
        return;
    for (unsigned i = 0; i < count && i < KERNELS_MAX; i++) {
        append_size(b, kernels[i], list, sizeof(list));
        b->cl->clReleaseKernel(kernels[i]);
    }
    if (*list)
        setenv("POCL_BINARY_SPECIALIZE_WG", list, 1);
}

static enum compile_end take_binary(const struct build *b, struct buffer *ret_object,
                                    struct kiln_err *err)
{
    size_t size = 0;
    ask_for_required_sizes(b);
    int result =
        b->cl->clGetProgramInfo(b->program, OPENCL_PROGRAM_BINARY_SIZES, sizeof(size), &size, NULL);
    if (result)
        return judge_result(result, "CL_PROGRAM_BINARY_SIZES", err);
    if (size == 0 || size > LIMIT_CODE_OBJECT) {
        kiln_fail(err, KILN_COMPILE_FAILED, "the driver made a program binary of %zu bytes", size);
        return size ? COMPILE_OUTPUT : COMPILE_REFUSED;
    }
    KILN_AUTO(mem) unsigned char *binary = malloc(size);
    if (!binary)
        return compile_no_memory(err);
    result =
        b->cl->clGetProgramInfo(b->program, OPENCL_PROGRAM_BINARIES, sizeof(binary), &binary, NULL);
    if (result)
        return judge_result(result, "CL_PROGRAM_BINARIES", err);
    buffer_put(ret_object, binary, size);
    return ret_object->failed ? compile_no_memory(err) : COMPILE_DONE;
}

static enum compile_end compile_in(struct build *b, const struct compile_job *job,
                                   struct buffer *ret_object, struct kiln_err *err)
{
    KILN_AUTO(mem) char *options = options_of(job);
    b->source = program_of(b, job->source);
    if (!options || !b->source || !take_headers(b, job))
        return compile_no_memory(err);
    enum compile_end end = build_program(b, options, err);
    return end == COMPILE_DONE ? take_binary(b, ret_object, err) : end;
}

static void *context_of(struct opencl *o, size_t index)
{
    int result = 0;
    if (!o->contexts[index])
        o->contexts[index] =
            o->cl.clCreateContext(NULL, 1, &o->devices[index].device, NULL, NULL, &result);
    return o->contexts[index];
}

static enum compile_end opencl_compile(struct compiler *compiler, const struct compile_job *job,
                                       const struct target *target, struct buffer *ret_object,
                                       struct kiln_err *err)
{
    struct opencl *o = (struct opencl *)compiler;
    for (size_t i = 0; i < o->count; i++) {
        if (strcmp(o->devices[i].target, target->text) != 0)
            continue;
        void *context = context_of(o, i);
        if (!context)
            return compile_no_memory(err);
        __attribute__((cleanup(build_done))) struct build b = { .cl = &o->cl,
                                                                .context = context,
                                                                .device = o->devices[i].device };
        return compile_in(&b, job, ret_object, err);
    }
    kiln_fail(err, KILN_UNSUPPORTED,
              "this host's OpenCL device needs code for %s, not for %s, which has another CPU or "
              "another build of the driver",
              o->devices[0].target, target->text);
    return COMPILE_REFUSED;
}

static enum kiln_code opencl_describe(struct compiler *compiler, struct toolchain *ret_toolchain,
                                      struct kiln_err *err)
{
    static const char *const deciding[] = { "libpocl",   "libLLVM",   "libclang",
                                            "libamdocl", "libigdrcl", "libnvidia-opencl",
                                            NULL };
    struct opencl *o = (struct opencl *)compiler;
    struct identity id;
    snprintf(ret_toolchain->version, sizeof(ret_toolchain->version), "%s", o->devices[0].version);
    snprintf(ret_toolchain->only_target, sizeof(ret_toolchain->only_target), "%s",
             o->devices[0].target);
    snprintf(ret_toolchain->path, sizeof(ret_toolchain->path), "libOpenCL.so.1");
    identity_init(&id, compiler->ops->name, ret_toolchain->only_target);
    enum kiln_code rc = identity_put_loaded(&id, deciding, err);
    if (!rc && access("/usr/bin/ld", R_OK) == 0)
        rc = identity_put_file(&id, "/usr/bin/ld", err);
    ret_toolchain->identity = identity_end(&id);
    return rc;
}

static void opencl_close(struct compiler *compiler) { free(compiler); }

static enum kiln_code opencl_open(struct compiler **ret_compiler, struct kiln_err *err)
{
    KILN_AUTO(mem) struct opencl *o = calloc(1, sizeof(*o));
    if (!o)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open OpenCL");
    o->base.ops = &compiler_opencl;
    enum kiln_code rc = opencl_library_open(&o->cl, err);
    if (rc)
        return rc;
    o->count = opencl_devices(&o->cl, o->devices, DEVICES_MAX);
    if (o->count == 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "OpenCL has no device here; install a driver, such "
                         "as Debian's pocl-opencl-icd");
    *ret_compiler = &KILN_TAKE(o)->base;
    return KILN_OK;
}

const struct compiler_ops compiler_opencl = {
    .name = "opencl",
    .family = TARGET_OPENCL,
    .needs_own_process = true,
    .open = opencl_open,
    .describe = opencl_describe,
    .compile = opencl_compile,
    .close = opencl_close,
};
