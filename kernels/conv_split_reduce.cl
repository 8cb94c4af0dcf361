/* SPDX-License-Identifier: MIT */
/*
 * The final reduction of split sums: output[i] = sum over s of parts[s][i], in fp32 and always in
 * the same order.
 *
 *   KILN_TYPE     type of the output
 *   KILN_SLICES   items that share the parts of one output: 1, 2, 4, ... 64.  A work group computes
 *                 256 / KILN_SLICES outputs
 */
#include "kiln/prelude.h"

#define ITEMS 256
#define OUTPUTS (ITEMS / KILN_SLICES)

KILN_KERNEL(ITEMS)
void conv_split_reduce_sum(KILN_GLOBAL const float *KILN_RESTRICT parts,
                           KILN_GLOBAL kiln_value *KILN_RESTRICT output, kiln_u32 elements,
                           kiln_u32 splits)
{
    KILN_SHARED float sums[ITEMS];
    kiln_u32 slice = kiln_item() / OUTPUTS;
    kiln_u32 index = kiln_group() * OUTPUTS + kiln_item() % OUTPUTS;
    float sum = 0;
    if (index < elements)
        for (kiln_u32 s = slice; s < splits; s += KILN_SLICES)
            sum += parts[s * (kiln_u64)elements + index];
    sums[kiln_item()] = sum;
    for (kiln_u32 reach = KILN_SLICES / 2; reach > 0; reach /= 2) {
        kiln_barrier();
        if (slice < reach)
            sums[kiln_item()] += sums[kiln_item() + reach * OUTPUTS];
    }
    if (slice == 0 && index < elements)
        kiln_store(output, index, sums[kiln_item()]);
}
