/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The names of the fleet tree's files (docs/formats/fleet.md), relative to the root of the tree.
 *
 * Threading  pure functions
 */
#include "common/base/digest.h"

/* All kernels of one shard have the same target and the same toolchain. Texts are borrowed. */
struct fleet_shard {
    struct bytes target;
    struct bytes toolchain; /* its name, such as "clang" */
    struct digest toolchain_id;
};

#define FLEET_SHARD_ID_SIZE 33
#define FLEET_NAME_MAX 128

bool fleet_shard_equal(const struct fleet_shard *a, const struct fleet_shard *b);
/* Writes 32 hexadecimal digits, a hash of |shard|. Names of files contain these digits instead of
 * the target's text, because URLs and S3 encode some characters of that text. */
void fleet_shard_id(const struct fleet_shard *shard, char id[FLEET_SHARD_ID_SIZE]);

void fleet_name_pointer(const char *shard_id, char name[FLEET_NAME_MAX]);
void fleet_name_index(const char *shard_id, const struct digest *sha256, char name[FLEET_NAME_MAX]);
void fleet_name_pack(const struct digest *sha256, char name[FLEET_NAME_MAX]);
void fleet_name_loose_directory(const char *shard_id, char name[FLEET_NAME_MAX]);
void fleet_name_lease_directory(const char *shard_id, char name[FLEET_NAME_MAX]);
/* Writes the name of the lease, a file which says that a host is compiling the kernel. */
void fleet_name_lease(const char *shard_id, const struct digest *key, char name[FLEET_NAME_MAX]);
/* Writes the name of a file that only tests what the store can do. |random| must be a random
 * number, so that no other host writes the same file. */
void fleet_name_probe(uint64_t random, char name[FLEET_NAME_MAX]);
void fleet_name_loose(const char *shard_id, const struct digest *key, char name[FLEET_NAME_MAX]);
