/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where PoCL, the OpenCL of CPUs, puts its files: it makes some even with its kernel cache off, one
 * more each time, and would do so below the user's home.
 *
 * Role       nothing where the user says where (POCL_CACHE_DIR) or no folder can be made
 * Threading  main thread, before the first device and after the last
 */

struct pocl_folder {
    char path[256]; /* "": not ours */
};

/* Turns PoCL's kernel cache off, too, unless POCL_KERNEL_CACHE is set. */
void pocl_folder_init(struct pocl_folder *folder);
/* Removes the folder with all that is in it. */
void pocl_folder_done(struct pocl_folder *folder);
