/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Key files: NAME.pub in directories of trusted keys, NAME.key of the signer (manifest.h).
 *
 * Ownership  plain values
 * Threading  pure functions, except for the files they read
 */
#include "engine/digest/ed25519.h"
#include "engine/manifest/manifest.h"

#include <dirent.h>

#define KEY_ID_SIZE 17
#define KEY_FILE_MAX 4096
#define KEY_TARGETS_MAX 512
#define KEY_FORMAT_PUBLIC "kiln-public-key-1"
#define KEY_FORMAT_SECRET "kiln-secret-key-1"

struct public_key {
    char name[KEY_NAME_MAX];
    char id[KEY_ID_SIZE];
    uint8_t key[ED25519_KEY_SIZE];
    /* Only for the fleet (engine/fleet/fleet_trust.h). */
    char targets[KEY_TARGETS_MAX]; /* separated by blanks */
    bool signs_index;
};

struct trusted_keys {
    unsigned good, bad;
    char first_bad[256];
};

/* Calls |each| for the keys in |directory|'s *.pub files, in order of file names, until |each|
 * returns false. Files without a valid key are counted as bad. Fails if memory or descriptors run
 * out, or if the disk fails: otherwise, a trusted key that was not read would seem to be
 * untrusted. */
KILN_MUST_CHECK enum kiln_code keys_each(const char *directory,
                                         bool (*each)(void *context, const struct public_key *key),
                                         void *context, struct trusted_keys *ret_keys,
                                         struct kiln_err *err);
/* Returns KILN_DENIED if other users can read the file. */
KILN_MUST_CHECK enum kiln_code keys_read_secret(const char *path, uint8_t secret[ED25519_KEY_SIZE],
                                                struct kiln_err *err);
void key_id_of(const uint8_t pub[ED25519_KEY_SIZE], char id[KEY_ID_SIZE]);
bool key_name_is_fine(const char *name);
/* A filter for scandir(3). */
int key_file_is_public(const struct dirent *entry);
