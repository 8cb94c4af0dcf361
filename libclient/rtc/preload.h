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
/* Sets the function pointer to which |ret_function| points: to the function with this name in the
 * next library after this one, or to NULL.  Does nothing if the function pointer is set already. */
void preload_find_next(const char *name, void *ret_function);
