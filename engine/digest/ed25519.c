/* SPDX-License-Identifier: MIT */
#include "engine/digest/ed25519.h"

#include <errno.h>
#include <sys/random.h>

/* <nettle/eddsa.h> declares arrays with nettle's sizes. If these sizes differ from those in
 * ed25519.h, the compiler reports an error. */
#include <nettle/eddsa.h>

enum kiln_code ed25519_generate(uint8_t secret[ED25519_KEY_SIZE], struct kiln_err *err)
{
    ssize_t got = 0;
    do /* never returns fewer bytes, because the request has at most 256 */
        got = getrandom(secret, ED25519_KEY_SIZE, 0);
    while (got < 0 && errno == EINTR);
    if (got != ED25519_KEY_SIZE)
        return kiln_fail_errno(err, got < 0 ? errno : EIO,
                               "cannot create a signing key: the system provides no random bytes");
    return KILN_OK;
}

void ed25519_public_of(const uint8_t secret[ED25519_KEY_SIZE], uint8_t pub[ED25519_KEY_SIZE])
{
    ed25519_sha512_public_key(pub, secret);
}

void ed25519_sign(const uint8_t secret[ED25519_KEY_SIZE], struct bytes message,
                  uint8_t signature[ED25519_SIGNATURE_SIZE])
{
    uint8_t pub[ED25519_KEY_SIZE];
    ed25519_public_of(secret, pub);
    ed25519_sha512_sign(pub, secret, message.size, message.data, signature);
}

bool ed25519_verify(const uint8_t pub[ED25519_KEY_SIZE], struct bytes message,
                    const uint8_t signature[ED25519_SIGNATURE_SIZE])
{
    return ed25519_sha512_verify(pub, message.size, message.data, signature) == 1;
}
