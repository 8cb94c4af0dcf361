/* SPDX-License-Identifier: MIT */
#pragma once

/* Numbered kernels. fault_compiler makes a kernel's bytes from the number in its source, so a
 * test knows the bytes, and compiling takes no time. */
#include "common/base/bytes.h"

#define MADE_TARGET "opencl:test"
#define MADE_TOOLCHAIN "opencl"
/* kilnd probes REFUSING_TOOLCHAIN with this target. The toolchain refuses every target. */
#define REFUSED_TARGET "sm_90"
#define REFUSING_TOOLCHAIN "nvrtc"

void made_source(unsigned number, char text[64]);
void made_endless_source(unsigned number, char text[64]);
bool made_is_endless(struct bytes source);
/* Returns false if the source has no number. */
bool made_number(struct bytes source, unsigned *ret_number);
/* Sizes alternate between those that fit into replies and those that need a descriptor. */
size_t made_size(unsigned number);
uint8_t made_byte(unsigned number, size_t at);
