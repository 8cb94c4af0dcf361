/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The dlsym of libkiln-rtc, which programs call instead of libc's.
 *
 * Role       returns wrappers of functions of NVRTC, hiprtc and comgr, and every other function
 *            unchanged
 * Threading  any thread
 */

/* Calls libc's dlsym.  With RTLD_NEXT, searches the libraries after libkiln-rtc. */
void *preload_real_dlsym(void *handle, const char *name);
/* |ret_function| points to a function pointer.  Sets it to the function |name| of the next library
 * after libkiln-rtc, or to NULL.  Does nothing if the function pointer is set already. */
void preload_find_next(const char *name, void *ret_function);
