/* SPDX-License-Identifier: MIT */
/* Tests readers of manifests, keys and signatures. If the input requests it, the text is signed
 * with a trusted key, so that it passes the signature check and reaches the code behind it. */
#include "common/base/hex.h"
#include "tests/fuzz/fuzz.h"

#include "common/base/fs.h"
#include "common/base/json.h"
#include "engine/digest/ed25519.h"
#include "engine/manifest/manifest_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const uint8_t secret[ED25519_KEY_SIZE] = { 1, 2, 3 };

static const char *trusted_directory(void)
{
    static char directory[512];
    if (*directory)
        return directory;
    uint8_t pub[ED25519_KEY_SIZE];
    char hex[2 * ED25519_KEY_SIZE + 1], id[KEY_ID_SIZE], text[512];
    snprintf(directory, sizeof(directory), "%s", fuzz_path("trusted"));
    fuzz_expect(mkdir(directory, 0700) == 0, "a directory of keys");
    ed25519_public_of(secret, pub);
    hex_write(pub, sizeof(pub), hex);
    key_id_of(pub, id);
    snprintf(text, sizeof(text),
             "{\"format\":\"" KEY_FORMAT_PUBLIC "\",\"name\":\"us\",\"key_id\":\"%s\","
             "\"key\":\"%s\"}",
             id, hex);
    fuzz_file("trusted/us.pub", bytes_of_text(text));
    return directory;
}

static void check(struct bytes manifest)
{
    const struct manifest_trust trust = { .directory = trusted_directory() };
    struct kiln_err err = KILN_ERR_INIT;
    struct manifest_file file;
    if (manifest_check(manifest, &trust, "gfx90a68.kpkg", &file, &err) == KILN_OK)
        fuzz_expect(strcmp(file.signer, "us") == 0,
                    "what is believed was signed by the trusted key");
}

/* Signs |text| as manifest_sign does, then checks how the reader parses the signed text. */
static void check_signed(struct bytes text)
{
    uint8_t pub[ED25519_KEY_SIZE], signature[ED25519_SIGNATURE_SIZE];
    char id[KEY_ID_SIZE], hex[2 * ED25519_SIGNATURE_SIZE + 1];
    KILN_AUTO(mem) char *copy = fuzz_text(text);
    ed25519_public_of(secret, pub);
    key_id_of(pub, id);
    ed25519_sign(secret, bytes_of_text(copy), signature);
    hex_write(signature, sizeof(signature), hex);
    KILN_AUTO(json) struct json *whole = json_object();
    json_set_text(whole, "manifest", copy);
    json_set_text(whole, "key_id", id);
    json_set_text(whole, "signature", hex);
    KILN_AUTO(mem) char *printed = json_print(whole, false);
    if (printed)
        check(bytes_of_text(printed));
}

static bool on_key(void *context, const struct public_key *key)
{
    (void)context;
    fuzz_expect(key_name_is_fine(key->name), "a key has a fine name");
    return true;
}

static void check_key(struct bytes text)
{
    static bool made;
    struct kiln_err err = KILN_ERR_INIT;
    struct trusted_keys keys;
    uint8_t read[ED25519_KEY_SIZE];
    if (!made)
        fuzz_expect(mkdir(fuzz_path("keys"), 0700) == 0, "another directory of keys");
    made = true;
    fuzz_file("keys/some.pub", text);
    (void)!keys_each(fuzz_path("keys"), on_key, NULL, &keys, &err);
    (void)!keys_read_secret(fuzz_file("some.key", text), read, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(struct bytes) = { check, check_signed, check_key };
    struct reader r = reader_of(bytes_of(data, size));
    unsigned which = reader_u8(&r);
    checks[which % 3](fuzz_rest(&r));
    return 0;
}
