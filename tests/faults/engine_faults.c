/* SPDX-License-Identifier: MIT */
/* Faults in what the engine does with its stores: each call that may fail, fails once. */
#include "tests/faults/engine_cases.h"

#include <string.h>

#define OPERATIONS_MAX 40

static size_t add(struct operation *to, const struct operation *from, size_t count)
{
    memcpy(to, from, count * sizeof(*from));
    return count;
}

int main(int argc, char **argv)
{
    static struct operation all[OPERATIONS_MAX];
    size_t count = add(all, store_operations, store_operation_count);
    count += add(all + count, tuning_operations, tuning_operation_count);
    add(all + count, package_operations, package_operation_count);
    return fault_cases_main(argc, argv, all);
}
