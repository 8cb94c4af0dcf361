/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where PoCL, the OpenCL of CPUs, puts its files: it makes some even with its kernel cache off, one
 * more each time, and would do so below the user's home.  With the cache off it names a program's
 * directory by the program alone and removes it with the program: a process that shares the
 * directory above loses its code, and PoCL aborts it.  So each process has a directory of its own.
 *
 * Role       a directory below the user's choice (POCL_CACHE_DIR), else $TMPDIR, else /tmp; nothing
 *            where the user wants the kernel cache (POCL_KERNEL_CACHE=1) or no directory can be
 * made Threading  main thread, before the first device and after the last
 */
#include <stdbool.h>

struct pocl_directory {
    char path[256];    /* "": not ours */
    char why_not[300]; /* it could not be made, and what to set; "" */
};

/* Whether opening the device |name| (NULL: any) may open PoCL's. */
bool pocl_directory_is_for(const char *name);
/* Turns PoCL's kernel cache off, too. */
void pocl_directory_init(struct pocl_directory *directory);
/* Whether a device of that target is PoCL's. */
bool pocl_directory_is_used(const char *target);
/* Removes the directory with all that is in it. */
void pocl_directory_done(struct pocl_directory *directory);
