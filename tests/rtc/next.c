/* SPDX-License-Identifier: MIT */
/* A library that is preloaded after libkiln-rtc, and that looks functions up in the libraries after
 * itself. */
#include <dlfcn.h>

void *next_of_itself(void);
void *next_open(void);
int cudnnCreate(void);

/* LLVM's OpenMP library looks its own ompt_start_tool up in this way. */
void *next_of_itself(void) { return dlsym(RTLD_NEXT, "next_of_itself"); }

void *next_open(void) { return dlsym(RTLD_NEXT, "open"); }

/* A name that begins like CUDA's functions. */
int cudnnCreate(void) { return 0; }
