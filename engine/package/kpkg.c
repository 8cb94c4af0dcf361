/* SPDX-License-Identifier: MIT */
#include "engine/package/kpkg.h"

#include "engine/digest/sha256.h"

struct digest kpkg_claim_of(const struct kpkg_claim *claim)
{
    const struct bytes fields[] = {
        claim->name,      claim->args,         claim->key,     claim->target,
        claim->toolchain, claim->toolchain_id, claim->program, claim->options,
        claim->source,    claim->headers,      claim->object,
    };
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of_text("kiln-package-row-1"));
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        sha256_put_sized(&s, fields[i]);
    return sha256_end(&s);
}
