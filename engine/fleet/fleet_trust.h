/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The keys that this host trusts, and what each of them may sign.
 *
 * Role       decides whether this host accepts a signed claim or index of the fleet
 * Ownership  a struct fleet_trust owns its table of keys
 * Threading  a struct fleet_trust does not change, so any number of threads may read it
 *
 * The keys are .pub files (docs/formats/manifest.md) in a directory of their own, so that a key
 * that is trusted for packages is not trusted here. A file's member "targets" lists the targets for
 * which the key may sign claims; "index": true permits the key to sign indices.
 */
#include "common/base/err.h"
#include "engine/digest/ed25519.h"
#include "engine/fleet/fleet_names.h"

#define FLEET_KEY_ID_SIZE 8

enum fleet_fault {
    FLEET_FAULT_NONE,
#define FLEET_FAULT(name, label, text) FLEET_FAULT_##name,
#include "engine/fleet/fleet_faults.def"
#undef FLEET_FAULT
    FLEET_FAULTS
};
const char *fleet_fault_label(enum fleet_fault fault); /* for metrics, such as "wrong-bytes" */
const char *fleet_fault_text(enum fleet_fault fault);

struct fleet_signer { /* call explicit_bzero on it after use */
    uint8_t secret[ED25519_KEY_SIZE];
    uint8_t key_id[FLEET_KEY_ID_SIZE];
};
KILN_MUST_CHECK enum kiln_code fleet_signer_read(const char *secret_key_file,
                                                 struct fleet_signer *ret_signer,
                                                 struct kiln_err *err);

struct fleet_trust;

#define FLEET_REVOKED_NAME_MAX 32
/* Writes the name ID.revoked. A file with this name in the directory of the keys revokes the key
 * with this id, whatever the file contains. So the key is not trusted again if its own file comes
 * back, for example with a package upgrade. */
void fleet_revoked_name(const uint8_t key_id[FLEET_KEY_ID_SIZE], char name[FLEET_REVOKED_NAME_MAX]);
/* Returns whether the key is revoked. Also returns true if this cannot be determined. */
bool fleet_key_is_revoked(const char *directory, const uint8_t key_id[FLEET_KEY_ID_SIZE]);

/* Leaves out revoked keys. Succeeds without keys if the directory does not exist. */
KILN_MUST_CHECK enum kiln_code fleet_trust_read(const char *directory,
                                                struct fleet_trust **ret_trust,
                                                struct kiln_err *err);
void fleet_trust_destroy(struct fleet_trust *trust);
KILN_DEFINE_AUTO(fleet_trust)
/* Returns whether |a| and |b| have the same keys with the same rights. */
bool fleet_trust_equal(const struct fleet_trust *a, const struct fleet_trust *b);
unsigned fleet_trust_count(const struct fleet_trust *trust);
unsigned fleet_trust_index_keys(const struct fleet_trust *trust);
/* Returns how many key files were left out because their keys are revoked. */
unsigned fleet_trust_revoked(const struct fleet_trust *trust);
/* Returns when the newest file ID.revoked came into the directory, in seconds since 1970; 0: there
 * is none. */
uint64_t fleet_trust_revoked_at(const struct fleet_trust *trust);
/* Returns whether the key is surely revoked: the file ID.revoked exists. Not true if an error hides
 * that file, so that a caller may delete what the key has signed. */
bool fleet_trust_has_revoked(const struct fleet_trust *trust,
                             const uint8_t key_id[FLEET_KEY_ID_SIZE]);
/* Returns how many files are not valid keys, or are keys that may sign nothing. |ret_first| is the
 * name of one of them. */
unsigned fleet_trust_bad(const struct fleet_trust *trust, const char **ret_first);

/* A text with its signature. Callers must not rely on the text until one of the checks below has
 * succeeded. */
struct fleet_signed {
    struct bytes signed_text;
    const uint8_t *key_id;    /* FLEET_KEY_ID_SIZE bytes */
    const uint8_t *signature; /* ED25519_SIGNATURE_SIZE bytes */
};
/* Checks that a trusted key made the signature, and that the key may sign claims for |target|. */
enum fleet_fault fleet_trust_check_claim(const struct fleet_trust *trust,
                                         const struct fleet_signed *what, struct bytes target);
enum fleet_fault fleet_trust_check_index(const struct fleet_trust *trust,
                                         const struct fleet_signed *what);
/* Returns whether a trusted key with this id may sign claims for |target|. */
bool fleet_trust_may_claim(const struct fleet_trust *trust, const uint8_t key_id[FLEET_KEY_ID_SIZE],
                           struct bytes target);
/* Returns whether a trusted key with this id may sign indices. */
bool fleet_trust_may_index(const struct fleet_trust *trust,
                           const uint8_t key_id[FLEET_KEY_ID_SIZE]);
