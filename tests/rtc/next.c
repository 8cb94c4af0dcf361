/* SPDX-License-Identifier: MIT */
/* A library that is preloaded after libkiln-rtc. It calls dlsym(RTLD_NEXT), which searches the
 * libraries that are loaded after this one. */
#include <dlfcn.h>

void *next_of_itself(void);
void *next_open(void);
int cudnnCreate(void);

/* Looks up a function of this library itself, as LLVM's OpenMP library does with
 * ompt_start_tool. */
void *next_of_itself(void) { return dlsym(RTLD_NEXT, "next_of_itself"); }

void *next_open(void) { return dlsym(RTLD_NEXT, "open"); }

/* A name that begins like CUDA's functions. */
int cudnnCreate(void) { return 0; }
