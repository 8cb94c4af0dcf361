/* SPDX-License-Identifier: MIT */
#include "tests/gpu/cuda_driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of CUdevice_attribute, CUfunction_attribute and CUresult, from cuda.h. */
#define ATTRIBUTE_CLOCK_KHZ 13
#define ATTRIBUTE_COMPUTE_UNITS 16
#define ATTRIBUTE_L2_BYTES 38
#define ATTRIBUTE_MAJOR 75
#define ATTRIBUTE_MINOR 76
#define FUNCTION_SHARED 1
#define FUNCTION_LOCAL 3
#define FUNCTION_REGISTERS 4
#define FUNCTION_SHARED_DYNAMIC_MAX 8
#define RESULT_OUT_OF_MEMORY 2
/* CUDA_ERROR_ILLEGAL_ADDRESS: a kernel accessed an illegal address. This result and all higher ones
 * mean that the context is unusable. */
#define FIRST_STICKY_RESULT 700
#define RESULT_ECC 214
/* Bytes of shared memory, static and dynamic, that every launch may use without
 * cuda_allow_shared. */
#define SHARED_FREE (48u << 10)

#define BATCHES 15u
#define BATCH_US 600.0
#define BATCH_LAUNCHES_MAX 64u
#define WARM_UP_LAUNCHES 3u
#define FIRST_LAUNCH_US 200.0

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define CUDA_SYMBOL(field, name, ...) { name, offsetof(struct cuda_driver, field) },
#include "tests/gpu/cuda_symbols.def"
#undef CUDA_SYMBOL
};

static enum kiln_code bind(struct cuda_driver *driver, struct kiln_err *err)
{
    driver->dl = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver->dl)
        return kiln_fail(err, KILN_UNAVAILABLE, "there is no CUDA driver here: %s", dlerror());
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(driver->dl, symbols[i].name);
        if (!symbol)
            return kiln_fail(err, KILN_UNAVAILABLE, "the CUDA driver lacks '%s'", symbols[i].name);
        memcpy((char *)driver + symbols[i].offset, &symbol, sizeof(symbol));
    }
    return KILN_OK;
}

enum kiln_code cuda_fail(struct cuda *cuda, int result, struct kiln_err *err, const char *format,
                         ...)
{
    const char *text = "unknown error";
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    cuda->driver.error_text(result, &text);
    cuda->is_lost |= result >= FIRST_STICKY_RESULT || result == RESULT_ECC;
    return kiln_fail(err, result == RESULT_OUT_OF_MEMORY ? KILN_NO_MEMORY : KILN_UNAVAILABLE,
                     "%s: CUDA error %d, %s", what, result, text);
}

static int attribute_of(struct cuda *cuda, int attribute)
{
    int value = 0;
    cuda->driver.device_attribute(&value, attribute, cuda->device);
    return value;
}

static void describe(struct cuda *cuda)
{
    cuda->driver.device_name(cuda->name, sizeof(cuda->name), cuda->device);
    snprintf(cuda->target, sizeof(cuda->target), "sm_%u%u",
             (unsigned)attribute_of(cuda, ATTRIBUTE_MAJOR) % 100,
             (unsigned)attribute_of(cuda, ATTRIBUTE_MINOR) % 100);
    cuda->compute_units = attribute_of(cuda, ATTRIBUTE_COMPUTE_UNITS);
    cuda->l2_bytes = attribute_of(cuda, ATTRIBUTE_L2_BYTES);
    cuda->clock_khz = attribute_of(cuda, ATTRIBUTE_CLOCK_KHZ);
}

enum kiln_code cuda_open(struct cuda *ret_cuda, struct kiln_err *err)
{
    *ret_cuda = (struct cuda){ .is_lost = false };
    struct cuda *cuda = ret_cuda;
    enum kiln_code rc = bind(&cuda->driver, err);
    if (rc)
        return rc;
    int result = cuda->driver.init(0);
    if (!result)
        result = cuda->driver.device_get(&cuda->device, 0);
    if (!result)
        result = cuda->driver.context_retain(&cuda->context, cuda->device);
    if (!result)
        result = cuda->driver.context_set(cuda->context);
    if (!result)
        result = cuda->driver.event_create(&cuda->before, 0);
    if (!result)
        result = cuda->driver.event_create(&cuda->after, 0);
    if (result)
        return cuda_fail(cuda, result, err, "cannot open the first GPU");
    describe(cuda);
    return KILN_OK;
}

void cuda_close(struct cuda *cuda)
{
    if (cuda->before)
        cuda->driver.event_destroy(cuda->before);
    if (cuda->after)
        cuda->driver.event_destroy(cuda->after);
    if (cuda->context)
        cuda->driver.context_release(cuda->device);
    if (cuda->driver.dl)
        dlclose(cuda->driver.dl);
    *cuda = (struct cuda){ .is_lost = false };
}

void cuda_full_target(const char *target, char ret_full[16])
{
    snprintf(ret_full, 16, "%.14s%s", target, strcmp(target, "sm_90") == 0 ? "a" : "");
}

enum kiln_code cuda_finish(struct cuda *cuda, struct kiln_err *err)
{
    int result = cuda->driver.synchronize();
    return result ? cuda_fail(cuda, result, err, "the GPU failed at its work") : KILN_OK;
}

enum kiln_code cuda_load(struct cuda *cuda, struct bytes object, void **ret_module,
                         struct kiln_err *err)
{
    int result = cuda->driver.module_load(ret_module, object.data);
    return result
               ? cuda_fail(cuda, result, err, "cannot load a code object of %zu bytes", object.size)
               : KILN_OK;
}

enum kiln_code cuda_function(struct cuda *cuda, void *module, const char *name, void **ret_function,
                             struct kiln_err *err)
{
    int result = cuda->driver.module_function(ret_function, module, name);
    return result ? cuda_fail(cuda, result, err, "no kernel '%s'", name) : KILN_OK;
}

enum kiln_code cuda_allow_shared(struct cuda *cuda, void *function, uint32_t bytes,
                                 struct kiln_err *err)
{
    int fixed = 0, result = cuda->driver.function_get(&fixed, FUNCTION_SHARED, function);
    if (!result && bytes + (uint32_t)fixed <= SHARED_FREE)
        return KILN_OK;
    if (!result)
        result = cuda->driver.function_set(function, FUNCTION_SHARED_DYNAMIC_MAX, (int)bytes);
    return result ? cuda_fail(cuda, result, err, "cannot allow a kernel %u bytes of shared memory",
                              (unsigned)bytes)
                  : KILN_OK;
}

enum kiln_code cuda_read_resources(struct cuda *cuda, void *function,
                                   struct cuda_resources *ret_resources, struct kiln_err *err)
{
    struct cuda_driver *driver = &cuda->driver;
    int result = driver->function_get(&ret_resources->registers, FUNCTION_REGISTERS, function);
    if (!result)
        result = driver->function_get(&ret_resources->shared, FUNCTION_SHARED, function);
    if (!result)
        result = driver->function_get(&ret_resources->local, FUNCTION_LOCAL, function);
    return result ? cuda_fail(cuda, result, err, "cannot read which resources a kernel needs")
                  : KILN_OK;
}

static enum kiln_code time_batch(struct cuda *cuda, const struct cuda_work *work, unsigned launches,
                                 double *ret_us, struct kiln_err *err)
{
    float milliseconds = 0;
    int result = cuda->driver.event_record(cuda->before, NULL);
    for (unsigned i = 0; i < launches && !result; i++) {
        enum kiln_code rc = work->launch(work->context, err);
        if (rc)
            return rc;
    }
    if (!result)
        result = cuda->driver.event_record(cuda->after, NULL);
    if (!result)
        result = cuda->driver.event_synchronize(cuda->after);
    if (!result)
        result = cuda->driver.event_elapsed(&milliseconds, cuda->before, cuda->after);
    *ret_us = (double)milliseconds * 1e3 / launches;
    return result ? cuda_fail(cuda, result, err, "the work to be timed failed") : KILN_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct cuda_timing summarise(double *times, unsigned count, unsigned launches)
{
    qsort(times, count, sizeof(*times), by_size);
    double median = times[count / 2];
    return (struct cuda_timing){ .microseconds = median,
                                 .spread = (times[count * 3 / 4] - times[count / 4]) / 2 / median,
                                 .launches = launches };
}

static unsigned launches_for(double us)
{
    double wanted = BATCH_US / (us > 1 ? us : 1);
    return wanted < 1 ? 1 : wanted > BATCH_LAUNCHES_MAX ? BATCH_LAUNCHES_MAX : (unsigned)wanted;
}

enum kiln_code cuda_time(struct cuda *cuda, const struct cuda_work *work,
                         struct cuda_timing *ret_timing, struct kiln_err *err)
{
    const double hopeless_us = work->hopeless_us;
    double times[BATCHES], first = 0;
    enum kiln_code rc = time_batch(cuda, work, 1, &first, err);
    if (!rc && hopeless_us > 0 && first > 2 * hopeless_us + FIRST_LAUNCH_US) {
        *ret_timing = summarise(&first, 1, 1);
        return KILN_OK;
    }
    if (!rc)
        rc = time_batch(cuda, work, WARM_UP_LAUNCHES, &first, err);
    unsigned launches = launches_for(first);
    unsigned count = hopeless_us > 0 && first > hopeless_us ? 1 : BATCHES;
    for (unsigned i = 0; i < count && !rc; i++)
        rc = time_batch(cuda, work, launches, &times[i], err);
    if (!rc)
        *ret_timing = summarise(times, count, launches);
    return rc;
}
