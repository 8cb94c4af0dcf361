/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_names.h"

#include "common/base/hex.h"
#include "engine/digest/sha256.h"

#include <stdio.h>

#define SHARD_FORMAT "kiln-fleet-shard-1"
#define TREE "v1"

bool fleet_shard_equal(const struct fleet_shard *a, const struct fleet_shard *b)
{
    return bytes_equal(a->target, b->target) && bytes_equal(a->toolchain, b->toolchain) &&
           digest_equal(&a->toolchain_id, &b->toolchain_id);
}

void fleet_shard_id(const struct fleet_shard *shard, char id[FLEET_SHARD_ID_SIZE])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of_text(SHARD_FORMAT));
    sha256_put_sized(&s, shard->target);
    sha256_put_sized(&s, shard->toolchain);
    sha256_put_sized(&s, bytes_of(shard->toolchain_id.bytes, DIGEST_SIZE));
    struct digest whole = sha256_end(&s);
    hex_write(whole.bytes, (FLEET_SHARD_ID_SIZE - 1) / 2, id);
}

void fleet_name_pointer(const char *shard_id, char name[FLEET_NAME_MAX])
{
    snprintf(name, FLEET_NAME_MAX, TREE "/i/%.32s/current", shard_id);
}

void fleet_name_index(const char *shard_id, const struct digest *sha256, char name[FLEET_NAME_MAX])
{
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(sha256, hex);
    snprintf(name, FLEET_NAME_MAX, TREE "/i/%.32s/%s.idx", shard_id, hex);
}

void fleet_name_pack(const struct digest *sha256, char name[FLEET_NAME_MAX])
{
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(sha256, hex);
    snprintf(name, FLEET_NAME_MAX, TREE "/p/%s.pack", hex);
}

void fleet_name_loose_directory(const char *shard_id, char name[FLEET_NAME_MAX])
{
    snprintf(name, FLEET_NAME_MAX, TREE "/k/%.32s", shard_id);
}

void fleet_name_lease_directory(const char *shard_id, char name[FLEET_NAME_MAX])
{
    snprintf(name, FLEET_NAME_MAX, TREE "/l/%.32s", shard_id);
}

void fleet_name_loose(const char *shard_id, const struct digest *key, char name[FLEET_NAME_MAX])
{
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(key, hex);
    snprintf(name, FLEET_NAME_MAX, TREE "/k/%.32s/%s", shard_id, hex);
}

void fleet_name_lease(const char *shard_id, const struct digest *key, char name[FLEET_NAME_MAX])
{
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(key, hex);
    snprintf(name, FLEET_NAME_MAX, TREE "/l/%.32s/%s", shard_id, hex);
}

void fleet_name_probe(uint64_t random, char name[FLEET_NAME_MAX])
{
    snprintf(name, FLEET_NAME_MAX, TREE "/l/probe/%016llx", (unsigned long long)random);
}
