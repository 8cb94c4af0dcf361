/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The dlsym of this library, which stands in front of libc's.
 *
 * Role       returns wrappers of NVRTC's and hiprtc's functions, and everything else unchanged
 * Threading  any thread
 */

/* Calls libc's dlsym.  With RTLD_NEXT, it searches the libraries after this one. */
void *preload_real_dlsym(void *handle, const char *name);
/* Sets |ret_function|, a pointer to a function, to the next function with this name behind this
 * library's own, or to NULL.  Does nothing if it is set already. */
void preload_find_next(const char *name, void *ret_function);
