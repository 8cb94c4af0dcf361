/* SPDX-License-Identifier: MIT */
#pragma once

/* CUDA sources that tests/gpu/CMakeLists.txt embeds into the GPU tests.
 *
 * Ownership  static data */
extern const unsigned char gpu_reference[], gpu_peaks[];
extern const unsigned long gpu_reference_size, gpu_peaks_size;
