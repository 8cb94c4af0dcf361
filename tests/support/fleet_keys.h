/* SPDX-License-Identifier: MIT */
#pragma once

/* Signing keys for tests of the fleet tier. Each key is derived from a number, so that results
 * are reproducible. */
#include "common/base/fs.h"
#include "common/base/hex.h"
#include "common/base/json.h"
#include "engine/fleet/fleet_trust.h"
#include "engine/manifest/manifest_keys.h"

#include <stdio.h>

static inline struct fleet_signer fleet_test_signer(uint8_t number)
{
    struct fleet_signer signer = { .secret = { number, 1 } };
    uint8_t pub[ED25519_KEY_SIZE];
    char id[KEY_ID_SIZE];
    ed25519_public_of(signer.secret, pub);
    key_id_of(pub, id);
    (void)hex_read(id, signer.key_id, FLEET_KEY_ID_SIZE);
    return signer;
}

struct fleet_test_key {
    const char *name, *targets;
    bool signs_index;
};

static inline void fleet_test_trust(const char *directory, const struct fleet_signer *signer,
                                    const struct fleet_test_key *rights)
{
    uint8_t pub[ED25519_KEY_SIZE];
    char id[KEY_ID_SIZE], hex[2 * ED25519_KEY_SIZE + 1], path[512];
    struct kiln_err err = KILN_ERR_INIT;
    ed25519_public_of(signer->secret, pub);
    key_id_of(pub, id);
    hex_write(pub, sizeof(pub), hex);
    KILN_AUTO(json) struct json *file = json_object();
    json_set_text(file, "format", KEY_FORMAT_PUBLIC);
    json_set_text(file, "name", rights->name);
    json_set_text(file, "key_id", id);
    json_set_text(file, "key", hex);
    if (rights->targets)
        json_set_text(file, "targets", rights->targets);
    if (rights->signs_index)
        json_set_bool(file, "index", true);
    KILN_AUTO(mem) char *text = json_print(file, /* indent= */ false);
    snprintf(path, sizeof(path), "%s/%s.pub", directory, rights->name);
    if (fs_replace_file(path, bytes_of_text(text), 0644, &err))
        abort();
}
