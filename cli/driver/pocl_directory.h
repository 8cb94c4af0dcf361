/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A private directory for the files of PoCL, the OpenCL implementation for CPUs.
 *
 * PoCL writes files below the user's home even when its kernel cache is off, and more on each run.
 * With the cache off, two processes that build the same OpenCL program use the same directory for
 * it, unless their parent directories differ.  The process that is done first removes the
 * directory.  The other process then loses its code, and PoCL aborts it.  So each process gets its
 * own parent directory.
 *
 * Role       creates a directory below POCL_CACHE_DIR, else below $TMPDIR, else below /tmp.  Does
 *            nothing if the user wants the kernel cache (POCL_KERNEL_CACHE=1), or if no directory
 *            can be created
 * Ownership  the caller owns the struct; pocl_directory_done removes the directory
 * Threading  main thread, before the first device is opened and after the last is closed
 */
#include <stdbool.h>

struct pocl_directory {
    char path[256];    /* "" if no private directory was created */
    char why_not[300]; /* why it could not be created, and what to set; otherwise "" */
};

/* Returns whether opening the device |name| may open a PoCL device.  NULL stands for any device. */
bool pocl_directory_is_for(const char *name);
/* Creates the directory and turns PoCL's kernel cache off. */
void pocl_directory_init(struct pocl_directory *directory);
/* Returns whether a device with |target| belongs to PoCL. */
bool pocl_directory_is_used(const char *target);
/* Removes the directory and its contents. */
void pocl_directory_done(struct pocl_directory *directory);
