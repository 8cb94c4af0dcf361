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
