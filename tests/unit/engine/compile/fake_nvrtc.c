/* SPDX-License-Identifier: MIT */
/* A library with NVRTC's calls, version 99.1. Like NVRTC, it opens its builtins library by bare
 * name at the first compile. Its only kernel code is the word "cubin". */
#include <dlfcn.h>
#include <string.h>

#define BUILTINS "libnvrtc-builtins.so.99.1"
#define BUILTIN_OPERATION_FAILURE 7

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC visibility push(default)

static const char code[] = "cubin";

int nvrtcCreateProgram(void **program)
{
    *program = NULL;
    return 0;
}

int nvrtcCompileProgram(void) { return dlopen(BUILTINS, RTLD_NOW) ? 0 : BUILTIN_OPERATION_FAILURE; }

int nvrtcGetProgramLogSize(void *program, size_t *size)
{
    (void)program;
    *size = 0;
    return 0;
}

int nvrtcGetProgramLog(void) { return 0; }

int nvrtcGetCUBINSize(void *program, size_t *size)
{
    (void)program;
    *size = sizeof(code);
    return 0;
}

int nvrtcGetCUBIN(void *program, char *to)
{
    (void)program;
    memcpy(to, code, sizeof(code));
    return 0;
}

int nvrtcDestroyProgram(void) { return 0; }

int nvrtcVersion(int *major, int *minor)
{
    *major = 99;
    *minor = 1;
    return 0;
}

const char *nvrtcGetErrorString(void) { return "FAKE_ERROR"; }
