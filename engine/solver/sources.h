/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The GPU sources in kernels/, which kernels/CMakeLists.txt embeds into the program.
 *
 * Ownership  static data
 */
#define KERNEL_SOURCE(name)            \
    extern const unsigned char name[]; \
    extern const unsigned long name##_size

KERNEL_SOURCE(kernels_prelude);
KERNEL_SOURCE(kernels_conv_depthwise);
KERNEL_SOURCE(kernels_conv_direct_naive);
KERNEL_SOURCE(kernels_conv_direct_narrow);
KERNEL_SOURCE(kernels_conv_generic);
KERNEL_SOURCE(kernels_conv_generic_mma);
KERNEL_SOURCE(kernels_conv_generic_pack);
KERNEL_SOURCE(kernels_conv_sizes);
KERNEL_SOURCE(kernels_conv_grouped);
KERNEL_SOURCE(kernels_conv_pointwise);
KERNEL_SOURCE(kernels_conv_implicit_gemm_vector);
KERNEL_SOURCE(kernels_conv_split_reduce);
KERNEL_SOURCE(kernels_igemm_vector_fetch);
KERNEL_SOURCE(kernels_igemm_vector_pixels);
KERNEL_SOURCE(kernels_igemm_vector_weights);
KERNEL_SOURCE(kernels_conv_view);
KERNEL_SOURCE(kernels_matrix_cores);
KERNEL_SOURCE(kernels_wide_products);
KERNEL_SOURCE(kernels_conv_mma_place);
KERNEL_SOURCE(kernels_conv_mma_result);
KERNEL_SOURCE(kernels_matrix_cores_amd);
KERNEL_SOURCE(kernels_conv_implicit_gemm_mma);
KERNEL_SOURCE(kernels_conv_implicit_gemm_bulk);
KERNEL_SOURCE(kernels_bulk_copies);
KERNEL_SOURCE(kernels_conv_reorder);
KERNEL_SOURCE(kernels_conv_winograd);

#undef KERNEL_SOURCE
