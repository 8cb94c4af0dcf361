/* SPDX-License-Identifier: MIT */
#include "libclient/torch/pytorch.h"

const char *const pytorch_symbols[] = {
#define TORCH_FUNCTION(returns, name, parameters, symbol) symbol,
#include "libclient/torch/pytorch.def"
#undef TORCH_FUNCTION
    NULL,
};

void pytorch_fill(struct pytorch *torch, void *const *functions)
{
    size_t i = 0;
#define TORCH_FUNCTION(returns, name, parameters, symbol) *(void **)&torch->name = functions[i++];
#include "libclient/torch/pytorch.def"
#undef TORCH_FUNCTION
}
