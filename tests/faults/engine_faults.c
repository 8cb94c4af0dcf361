/* SPDX-License-Identifier: MIT */
#include "tests/faults/engine_cases.h"

#include <string.h>

#define OPERATIONS_MAX 40

static size_t add_kind(struct operation *to, const struct operation *from, size_t count)
{
    memcpy(to, from, count * sizeof(*from));
    return count;
}

int main(int argc, char **argv)
{
    static struct operation all[OPERATIONS_MAX];
    size_t count = add_kind(all, store_operations, store_operation_count);
    count += add_kind(all + count, tuning_operations, tuning_operation_count);
    add_kind(all + count, package_operations, package_operation_count);
    return fault_cases_main(argc, argv, all);
}
