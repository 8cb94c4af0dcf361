/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Key files of the fleet (docs/formats/fleet.md): NAME.pub has a key and states what it may sign,
 * and ID.revoked revokes a key.
 *
 * Ownership  the caller owns returned JSON
 * Threading  blocks
 */
#include "cli/fail.h"
#include "engine/fleet/fleet_trust.h"

#include <limits.h>

#define FLEET_KEYS_DIRECTORY "/etc/kiln/fleet-keys.d"

struct json;

struct fleet_rights {
    const char *targets; /* NULL: none */
    bool index;
};

/* Reads a public key, which may state rights. */
CLI_MUST_CHECK int fleet_key_read(const char *path, struct json **ret_key, struct kiln_error *err);
/* Returns false if the key's member key_id is not valid. */
bool fleet_key_id(const struct json *key, uint8_t ret_id[FLEET_KEY_ID_SIZE]);
/* Makes a copy of the key with |rights| instead of the key's own rights. */
struct json *fleet_key_with_rights(const struct json *key, const struct fleet_rights *rights);
/* If the user may not do it, adds to the error what to do. Returns the error's code. */
int fleet_key_advise(struct kiln_error *err);
/* Writes the key as NAME.pub, and returns the path. Refuses to replace another key. */
CLI_MUST_CHECK int fleet_key_write(const char *directory, const struct json *key,
                                   char ret_path[PATH_MAX], struct kiln_error *err);
