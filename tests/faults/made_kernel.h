/* SPDX-License-Identifier: MIT */
#pragma once

/* Numbered kernels for tests. Their source only contains a number, from which fault_compiler
 * computes the bytes of the object. So a test knows which bytes to expect, and compiling takes no
 * time. */
#include "common/base/bytes.h"

#define MADE_TARGET "opencl:test"
#define MADE_TOOLCHAIN "opencl"
/* kilnd must probe whether REFUSING_TOOLCHAIN supports this target. The toolchain's compiler
 * refuses every target. */
#define REFUSED_TARGET "sm_90"
#define REFUSING_TOOLCHAIN "nvrtc"

void made_source(unsigned number, char text[64]);
void made_endless_source(unsigned number, char text[64]);
bool made_is_endless(struct bytes source);
bool made_number(struct bytes source, unsigned *ret_number);
/* Returns the object's size in bytes. Objects with an odd number fit into a reply, and objects with
 * an even number are sent as descriptors. */
size_t made_size(unsigned number);
uint8_t made_byte(unsigned number, size_t at);
