/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The texts of kernels/, as kernels/CMakeLists.txt puts them into the program.
 *
 * Ownership  static data
 */
#define KERNEL_SOURCE(name)            \
    extern const unsigned char name[]; \
    extern const unsigned long name##_size

KERNEL_SOURCE(kernels_prelude);
KERNEL_SOURCE(kernels_conv_direct_naive);

#undef KERNEL_SOURCE
