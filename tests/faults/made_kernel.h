/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Numbered kernels: the source of a number, and the bytes to which fault_compiler compiles it. A
 * test thereby knows the expected bytes, and compiling takes no time.
 */
#include "common/base/bytes.h"

#define MADE_TARGET "opencl:test"
#define MADE_TOOLCHAIN "opencl"
/* A target that REFUSING_TOOLCHAIN is probed with. It refuses every target. */
#define REFUSED_TARGET "sm_90"
#define REFUSING_TOOLCHAIN "nvrtc"

/* Writes the source of kernel |number|. */
void made_source(unsigned number, char text[64]);
/* The same, but compiling the source never ends. */
void made_endless_source(unsigned number, char text[64]);
bool made_is_endless(struct bytes source);
/* The number of a source; false: it has none. */
bool made_number(struct bytes source, unsigned *ret_number);
/* Kernels alternate between sizes that replies contain and sizes that need a descriptor. */
size_t made_size(unsigned number);
uint8_t made_byte(unsigned number, size_t at);
