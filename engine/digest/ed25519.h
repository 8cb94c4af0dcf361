/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Ed25519 signatures (RFC 8032), computed by nettle.
 *
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#define ED25519_KEY_SIZE 32
#define ED25519_SIGNATURE_SIZE 64

KILN_MUST_CHECK enum kiln_code ed25519_generate(uint8_t secret[ED25519_KEY_SIZE],
                                                struct kiln_err *err);
void ed25519_public_of(const uint8_t secret[ED25519_KEY_SIZE], uint8_t pub[ED25519_KEY_SIZE]);
void ed25519_sign(const uint8_t secret[ED25519_KEY_SIZE], struct bytes message,
                  uint8_t signature[ED25519_SIGNATURE_SIZE]);
bool ed25519_verify(const uint8_t pub[ED25519_KEY_SIZE], struct bytes message,
                    const uint8_t signature[ED25519_SIGNATURE_SIZE]);
