/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A private directory for the files of PoCL, the OpenCL implementation for CPUs.
 *
 * PoCL writes files below the user's home even when its kernel cache is off.  With the cache off,
 * two processes that build the same OpenCL program share a directory for that program, unless their
 * parent directories differ.  The first process to end removes the directory, and PoCL then aborts
 * the other process.  So each process gets its own parent directory.
 *
 * Role       creates a directory below POCL_CACHE_DIR, else below $TMPDIR, else below /tmp.  Does
 *            nothing if the user wants the kernel cache (POCL_KERNEL_CACHE=1)
 * Ownership  the caller owns the struct; pocl_directory_done removes the directory
 * Threading  main thread, before the first device is opened and after the last is closed
 */
#include <stdbool.h>

struct pocl_directory {
    char path[256];
    /* why the directory could not be created, and which variable to set; "" if it was created */
    char why_not[300];
};

/* Returns whether opening the device |name| may open a PoCL device.  NULL stands for any device. */
bool pocl_directory_is_for(const char *name);
/* Prepares |directory|, and turns PoCL's kernel cache off. */
void pocl_directory_init(struct pocl_directory *directory);
bool pocl_directory_is_used(const char *target);
void pocl_directory_done(struct pocl_directory *directory);
