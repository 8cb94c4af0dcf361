/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * This library's dlsym, which programs call instead of libc's.
 *
 * Role       returns wrappers of functions of NVRTC, hiprtc and comgr, and all others unchanged
 * Threading  any thread
 */

/* Calls libc's dlsym.  With RTLD_NEXT, it searches the libraries after this one. */
void *preload_real_dlsym(void *handle, const char *name);
/* Sets |ret_function|, a pointer to a function pointer, to the function with this name in the next
 * library after this one, or to NULL.  Does nothing if it is set already. */
void preload_find_next(const char *name, void *ret_function);
