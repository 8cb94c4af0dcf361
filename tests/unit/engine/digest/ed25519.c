/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/digest/ed25519.h"

#include <stdio.h>
#include <string.h>

struct vector { /* RFC 8032, section 7.1 */
    const char *secret, *pub, *message, *signature;
};

static const struct vector vectors[] = {
    { "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
      "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
      "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9"
      "b4"
      "6bd25bf5f0595bbe24655141438e7a100b" },
    { "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
      "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
      "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f1"
      "1d"
      "8c387b2eaeb4302aeeb00d291612bb0c00" },
    { "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
      "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
      "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984d"
      "c6"
      "594a7c15e9716ed28dc027beceea1ec40a" },
};

static size_t from_hex(const char *hex, uint8_t *bytes)
{
    size_t size = strlen(hex) / 2;
    for (size_t i = 0; i < size; i++) {
        unsigned value = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &value), 1);
        bytes[i] = (uint8_t)value;
    }
    return size;
}

TEST(plain, signatures_match_rfc_8032)
{
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        uint8_t secret[ED25519_KEY_SIZE], expected_pub[ED25519_KEY_SIZE], message[8],
            expected[ED25519_SIGNATURE_SIZE], pub[ED25519_KEY_SIZE],
            signature[ED25519_SIGNATURE_SIZE];
        from_hex(vectors[i].secret, secret);
        from_hex(vectors[i].pub, expected_pub);
        from_hex(vectors[i].signature, expected);
        size_t size = from_hex(vectors[i].message, message);

        ed25519_public_of(secret, pub);
        ed25519_sign(secret, bytes_of(message, size), signature);

        assert_memory_equal(pub, expected_pub, sizeof(pub));
        assert_memory_equal(signature, expected, sizeof(signature));
        assert_true(ed25519_verify(pub, bytes_of(message, size), signature));
    }
}

struct signing {
    uint8_t secret[ED25519_KEY_SIZE], pub[ED25519_KEY_SIZE];
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    char message[32];
};

static struct bytes message_of(const struct signing *s)
{
    return bytes_of(s->message, sizeof(s->message));
}

SET_UP_OF(sign_something, struct signing)
{
    struct kiln_err err = KILN_ERR_INIT;
    must(ed25519_generate(f->secret, &err), err);
    ed25519_public_of(f->secret, f->pub);
    snprintf(f->message, sizeof(f->message), "a manifest");
    ed25519_sign(f->secret, message_of(f), f->signature);
}

FIXTURE_OF(signature, struct signing, sign_something, NULL);

TEST_F(signature, a_flipped_bit_anywhere_is_refused)
{
    assert_true(ed25519_verify(f->pub, message_of(f), f->signature));
    uint8_t *parts[] = { f->pub, f->signature, (uint8_t *)f->message };
    const size_t sizes[] = { sizeof(f->pub), sizeof(f->signature), sizeof(f->message) };
    for (size_t part = 0; part < 3; part++) {
        for (size_t bit = 0; bit < 8 * sizes[part]; bit++) {
            parts[part][bit / 8] ^= (uint8_t)(1u << (bit % 8));
            assert_false(ed25519_verify(f->pub, message_of(f), f->signature));
            parts[part][bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
    }
}

TEST_F(signature, another_key_does_not_verify)
{
    uint8_t other[ED25519_KEY_SIZE], pub[ED25519_KEY_SIZE];
    struct kiln_err err = KILN_ERR_INIT;
    must(ed25519_generate(other, &err), err);
    ed25519_public_of(other, pub);

    assert_memory_not_equal(other, f->secret, sizeof(other));
    assert_false(ed25519_verify(pub, message_of(f), f->signature));
}
