/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Packed tensors (kernels/conv_generic_pack.cl) for ConvGeneric on matrix cores, which needs
 * channels last in whole chunks of 16 bytes.  Tensors with channels first, or with other numbers of
 * channels, are packed into the workspace.
 *
 * Role       part of conv_generic_mma.c
 * Ownership  none
 * Threading  pure functions
 */
#include "engine/solver/solver.h"

/* Returns the problem whose tensors are the packed ones. */
struct problem generic_packed_problem(const struct problem *p);
/* Returns whether a tensor, ARGUMENT_X, _W or _Y, equals its packed form. */
bool generic_is_packed(const struct problem *p, enum argument_kind tensor);
/* Returns whether each tensor that differs from its packed form can be packed in one launch, and
 * its packed form has fewer than 2^31 elements. */
bool generic_can_pack(const struct problem *p, const struct target *target);
/* Returns the bytes of workspace for packed operands. */
uint64_t generic_operand_bytes(const struct problem *p);

/* Adds kernels that pack those operands that differ from their packed form, to the start of the
 * workspace.  Stores in |ret_packed| where the product finds the operands. */
void generic_pack_operands(const struct problem *p, const enum argument_kind operands[2],
                           struct solution *solution, struct solution_argument ret_packed[2]);
/* Adds the kernel that converts packed fp32 sums to the tensor |result|. */
void generic_unpack_sums(const struct problem *p, struct solution_argument sums,
                         enum argument_kind result, struct solution *solution);
