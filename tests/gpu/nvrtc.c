/* SPDX-License-Identifier: MIT */
#include "tests/gpu/nvrtc.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 192u

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define RTC_SYMBOL(need, field, name) { name, offsetof(struct rtc_library, field) },
#include "engine/compile/nvrtc_symbols.def"
#undef RTC_SYMBOL
};

static void *try_pattern(const char *pattern, struct nvrtc *nvrtc)
{
    glob_t found;
    void *dl = NULL;
    if (glob(pattern, 0, NULL, &found))
        return NULL;
    for (size_t i = 0; i < found.gl_pathc && !dl; i++) {
        dl = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        snprintf(nvrtc->path, sizeof(nvrtc->path), "%s", found.gl_pathv[i]);
    }
    globfree(&found);
    return dl;
}

static void *try_name(const char *name, struct nvrtc *nvrtc)
{
    snprintf(nvrtc->path, sizeof(nvrtc->path), "%s", name);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static void *find_library(struct nvrtc *nvrtc)
{
    static const char *const patterns[] = {
        "/usr/local/cuda/lib64/libnvrtc.so.1[0-9]",
        "/usr/lib/python3*/*-packages/nvidia/cu1[0-9]/lib/libnvrtc.so.1[0-9]",
        "/usr/local/lib/python3*/*-packages/nvidia/cu1[0-9]/lib/libnvrtc.so.1[0-9]",
    };
    const char *given = getenv("KILN_NVRTC");
    void *dl = given ? try_pattern(given, nvrtc) : NULL;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]) && !dl && !given; i++)
        dl = try_pattern(patterns[i], nvrtc);
    /* For a name without a path, the loader searches LD_LIBRARY_PATH and the system's
     * directories. */
    return dl || given ? dl : try_name("libnvrtc.so.13", nvrtc);
}

enum kiln_code nvrtc_open(struct nvrtc *ret_nvrtc, struct kiln_err *err)
{
    *ret_nvrtc = (struct nvrtc){ .dl = NULL };
    ret_nvrtc->dl = find_library(ret_nvrtc);
    if (!ret_nvrtc->dl)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "there is no NVRTC here: install CUDA, or set KILN_NVRTC to the library");
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(ret_nvrtc->dl, symbols[i].name);
        if (!symbol)
            return kiln_fail(err, KILN_UNAVAILABLE, "'%s' lacks '%s'", ret_nvrtc->path,
                             symbols[i].name);
        memcpy((char *)&ret_nvrtc->library + symbols[i].offset, &symbol, sizeof(symbol));
    }
    ret_nvrtc->library.version(&ret_nvrtc->major, &ret_nvrtc->minor);
    return KILN_OK;
}

static bool is_same(const struct nvrtc_program *p, const struct solution_program *source,
                    const char *target, uint64_t hash)
{
    return p->hash == hash && p->source.source.data == source->source.data &&
           strcmp(p->target, target) == 0 && strcmp(p->source.options, source->options) == 0;
}

size_t nvrtc_pool_add(struct nvrtc_pool *pool, const struct solution_program *source,
                      const char *target)
{
    uint64_t hash = bytes_hash(bytes_of_text(source->options), 0);
    for (size_t i = 0; i < pool->count; i++)
        if (is_same(pool->programs[i], source, target, hash))
            return i;
    if (pool->count == pool->capacity) {
        size_t capacity = pool->capacity * 2 + 64;
        void *grown = realloc(pool->programs, capacity * sizeof(pool->programs[0]));
        if (!grown)
            return SIZE_MAX;
        pool->programs = grown;
        pool->capacity = capacity;
    }
    struct nvrtc_program *p = calloc(1, sizeof(*p));
    if (!p)
        return SIZE_MAX;
    p->source = *source;
    p->hash = hash;
    snprintf(p->target, sizeof(p->target), "%s", target);
    pool->programs[pool->count] = p;
    return pool->count++;
}

void nvrtc_pool_done(struct nvrtc_pool *pool)
{
    for (size_t i = 0; i < pool->count; i++) {
        free(pool->programs[i]->object);
        free(pool->programs[i]->log);
        free(pool->programs[i]);
    }
    free(pool->programs);
    *pool = (struct nvrtc_pool){ .count = 0 };
}

static size_t split(char *options, const char *ret_options[OPTIONS_MAX], size_t count)
{
    char *rest = NULL;
    for (char *o = strtok_r(options, " ", &rest); o && count < OPTIONS_MAX;
         o = strtok_r(NULL, " ", &rest))
        ret_options[count++] = o;
    return count;
}

static void keep_log(const struct rtc_library *library, void *handle, struct nvrtc_program *p)
{
    size_t size = 0;
    if (library->log_size(handle, &size) || size <= 1)
        return;
    p->log = calloc(1, size + 1);
    if (p->log && library->log(handle, p->log))
        p->log[0] = '\0';
}

static void take_object(const struct rtc_library *library, void *handle, struct nvrtc_program *p)
{
    if (library->code_size(handle, &p->size))
        return;
    p->object = malloc(p->size + 1);
    if (p->object && library->code(handle, p->object)) {
        free(p->object);
        p->object = NULL;
    }
}

void nvrtc_compile(const struct nvrtc *nvrtc, struct nvrtc_program *p)
{
    const struct rtc_library *library = &nvrtc->library;
    char target[48], options[sizeof(p->source.options)];
    const char *all[OPTIONS_MAX] = { target, "-DKILN_CUDA=1", "-std=c++17" };
    const char *headers[SOLUTION_HEADERS_MAX];
    void *handle = NULL;
    snprintf(target, sizeof(target), "--gpu-architecture=%s", p->target);
    snprintf(options, sizeof(options), "%s", p->source.options);
    size_t count = split(options, all, 3);
    /* headers are embedded files, which end with NUL */
    for (uint32_t i = 0; i < p->source.header_count; i++)
        headers[i] = (const char *)p->source.header_texts[i].data;
    if (library->create(&handle, (const char *)p->source.source.data, p->source.name,
                        (int)p->source.header_count, headers, p->source.header_names))
        return;
    if (library->compile(handle, (int)count, all) == 0)
        take_object(library, handle, p);
    keep_log(library, handle, p);
    library->destroy(&handle);
}
