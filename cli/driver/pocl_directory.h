/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A private directory for the files of PoCL, the OpenCL implementation for CPUs.
 *
 * PoCL writes files below the user's home even when its kernel cache is off, and more on each run.
 * With the cache off, PoCL names a program's directory after the program alone and removes it with
 * the program.  If two processes share the parent directory, one of them loses its code and PoCL
 * aborts it.  Each process therefore gets a parent directory of its own.
 *
 * Role       makes a directory below the user's choice (POCL_CACHE_DIR), else $TMPDIR, else /tmp.
 *            Does nothing if the user wants the kernel cache (POCL_KERNEL_CACHE=1) or no directory
 *            can be made
 * Ownership  the caller owns the struct; pocl_directory_done removes the directory
 * Threading  main thread, before the first device is opened and after the last is closed
 */
#include <stdbool.h>

struct pocl_directory {
    char path[256];    /* "": no private directory was made */
    char why_not[300]; /* why it could not be made, and what to set; else "" */
};

/* Whether opening the device |name| (NULL: any) may open a PoCL device. */
bool pocl_directory_is_for(const char *name);
/* Makes the directory and turns PoCL's kernel cache off. */
void pocl_directory_init(struct pocl_directory *directory);
/* Whether a device with |target| belongs to PoCL. */
bool pocl_directory_is_used(const char *target);
/* Removes the directory and its contents. */
void pocl_directory_done(struct pocl_directory *directory);
