/* SPDX-License-Identifier: MIT */
#include "engine/package/damaged_rows.h"

#include "engine/digest/sha256.h"

struct digest damaged_rows_name(const struct kern_name *name)
{
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, name->name);
    sha256_put_sized(&s, name->args);
    return sha256_end(&s);
}

bool damaged_rows_has(const struct damaged_rows *rows, const struct digest *request)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (digest_equal(&rows->requests[i], request))
            return true;
    }
    return false;
}

void damaged_rows_add(struct damaged_rows *rows, const struct digest *request)
{
    if (damaged_rows_has(rows, request))
        return;
    rows->requests[rows->next] = *request;
    rows->next = (rows->next + 1) % DAMAGED_ROWS_MAX;
    rows->count += rows->count < DAMAGED_ROWS_MAX;
}
