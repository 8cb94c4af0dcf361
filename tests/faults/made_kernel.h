/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Numbered kernels: each number has a source, and bytes that fault_compiler makes from this source.
 * So a test knows the expected bytes, and compiling takes no time.
 */
#include "common/base/bytes.h"

#define MADE_TARGET "opencl:test"
#define MADE_TOOLCHAIN "opencl"
/* The target with which REFUSING_TOOLCHAIN is probed. The toolchain rejects every target. */
#define REFUSED_TARGET "sm_90"
#define REFUSING_TOOLCHAIN "nvrtc"

/* Writes the source of kernel |number|. */
void made_source(unsigned number, char text[64]);
/* Writes a source of kernel |number| whose compilation never ends. */
void made_endless_source(unsigned number, char text[64]);
bool made_is_endless(struct bytes source);
/* Gets the number of a source. Returns false if it has none. */
bool made_number(struct bytes source, unsigned *ret_number);
/* Returns the size of a kernel. Sizes alternate between those that fit into replies and those that
 * need a descriptor. */
size_t made_size(unsigned number);
uint8_t made_byte(unsigned number, size_t at);
