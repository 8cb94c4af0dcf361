/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A claim: "the object with this digest is the kernel with this key". The builder that compiled the
 * kernel signs the claim (docs/formats/fleet.md).
 *
 * Threading  pure functions
 */
#include "engine/fleet/fleet_trust.h"

/* Maximum size of an object. Verifying and storing a larger one would occupy a thread for too
 * long. */
#define FLEET_OBJECT_MAX (4u << 20)
/* Maximum size of an encoded claim. Its options have at most 16 KiB; the other members are much
 * smaller. */
#define FLEET_CLAIM_MAX (32u << 10)
#define FLEET_CLAIM_FORMAT "kiln-fleet-claim-1"
/* Offset of the member |builder| in an encoded claim: after the format's length and text. */
#define FLEET_CLAIM_BUILDER_AT (sizeof(uint32_t) + sizeof(FLEET_CLAIM_FORMAT) - 1)

struct fleet_claim { /* texts are borrowed */
    struct digest key;
    struct digest object;
    struct digest source_id, headers_id; /* zeros: not stated */
    struct fleet_shard shard;
    struct bytes program, options;
    struct bytes version; /* version of the builder's kiln */
    uint64_t raw_size;
    uint64_t compile_ns;
    uint64_t time; /* when the kernel was compiled, in seconds since 1970 */
    uint8_t builder[FLEET_KEY_ID_SIZE];
};

/* Returns KILN_INVALID if a text is too long or has a control character, or if the object is empty
 * or too large. */
KILN_MUST_CHECK enum kiln_code fleet_claim_encode(const struct fleet_claim *claim,
                                                  struct buffer *ret_text, struct kiln_err *err);
/* Reads a claim, whose texts then point into |text|. Returns false if |text| is not a valid claim.
 * The caller must check the signature before it relies on anything in the claim. */
bool fleet_claim_decode(struct bytes text, struct fleet_claim *ret_claim);
