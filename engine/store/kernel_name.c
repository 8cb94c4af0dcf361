/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_name.h"

#include "engine/digest/sha256.h"

struct digest kernel_name_key(uint64_t scope, struct bytes database_id, struct bytes name,
                              struct bytes args)
{
    uint8_t number[8];
    for (size_t i = 0; i < sizeof(number); i++)
        number[i] = (uint8_t)(scope >> (8 * i));
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of_text("kiln-name-1"));
    sha256_put_sized(&s, bytes_of(number, sizeof(number)));
    sha256_put_sized(&s, database_id);
    sha256_put_sized(&s, name);
    sha256_put_sized(&s, args);
    return sha256_end(&s);
}

struct digest kernel_client_key(uint64_t scope, const struct digest *key)
{
    return kernel_name_key(scope, bytes_of_text("compile of a client"),
                           bytes_of(key->bytes, DIGEST_SIZE), bytes_of_text(""));
}
