/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Kernels by number: the source that names one, and the bytes that fault_compiler makes of it.  So
 * a test knows what must come, and nobody compiles for seconds.
 */
#include "common/bytes.h"

#define MADE_TARGET "opencl:test"
#define MADE_TOOLCHAIN "opencl"
/* It is tried on a target, and refuses it as it does everything. */
#define REFUSED_TARGET "sm_90"
#define REFUSING_TOOLCHAIN "nvrtc"

/* A source that asks for kernel |number|. */
void made_source(unsigned number, char text[64]);
/* The same, but compiling it never ends. */
void made_endless_source(unsigned number, char text[64]);
bool made_is_endless(struct bytes source);
/* Its number; false for a source that is none of these. */
bool made_number(struct bytes source, unsigned *ret_number);
/* Every second one travels in the answer, the others by descriptor. */
size_t made_size(unsigned number);
uint8_t made_byte(unsigned number, size_t at);
