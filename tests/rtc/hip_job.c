/* SPDX-License-Identifier: MIT */
/* Compiles with hiprtc, and prints what hiprtc returns. Usage: hip_job [LIBRARY [deepbind]]. Built
 * with LINKED, it calls the library that it is linked with. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hiprtcCreateProgram(void **program, const char *source, const char *name, int count,
                        const char **headers, const char **names);
int hiprtcCompileProgram(void *program, int count, const char **options);
int hiprtcGetCodeSize(void *program, size_t *size);
int hiprtcGetCode(void *program, char *code);
int hiprtcDestroyProgram(void **program);

#define SOURCE "extern \"C\" __global__ void k(float *x) { *x = 1; }"

/* clang-format off */
#define EACH_FUNCTION(F) \
    F(CreateProgram) F(CompileProgram) F(GetCodeSize) F(GetCode) F(DestroyProgram)
/* clang-format on */
#define MEMBER(name) __typeof__(&hiprtc##name) name;
static struct {
    EACH_FUNCTION(MEMBER)
} api;

#ifdef LINKED
static void load(char **argv)
{
    (void)argv;
#define TAKE(name) api.name = hiprtc##name;
    EACH_FUNCTION(TAKE)
}
#else
static void load(char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW | (argv[2] ? RTLD_DEEPBIND : 0));
    if (!library) {
        fprintf(stderr, "hip_job: %s\n", dlerror());
        exit(2);
    }
#define LOOK_UP(name)                                 \
    {                                                 \
        void *found = dlsym(library, "hiprtc" #name); \
        memcpy(&api.name, &found, sizeof(found));     \
    }
    EACH_FUNCTION(LOOK_UP)
}
#endif

int main(int argc, char **argv)
{
    const char *option = "--offload-arch=gfx90a";
    void *program = NULL;
    size_t size = 0;
    (void)argc;
    load(argv);
    printf("create %d\n", api.CreateProgram(&program, SOURCE, "k.cu", 0, NULL, NULL));
    printf("compile %d\n", api.CompileProgram(program, 1, &option));
    printf("size %d, %zu\n", api.GetCodeSize(program, &size), size);
    char *code = calloc(1, size + 1);
    unsigned long hash = 1469598103934665603ul;
    int rc = api.GetCode(program, code);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)code[i]) * 1099511628211ul;
    printf("code %d, %016lx\n", rc, hash);
    printf("destroy %d\n", api.DestroyProgram(&program));
    free(code);
    return 0;
}
