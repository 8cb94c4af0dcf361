/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs kilnd as root, with two users: a victim with private data, and an attacker. */
#include "tests/integration/host.h"
#include "tests/support/raw_client.h"
#include "tests/unit/engine/miopen/kern_db_fixture.h"

#define VICTIM 45001
#define ATTACKER 45002
#define NOBODYS 65534 /* the overflow uid */

#define DEVICE "gfx906_60"
#define CACHE_NAME DEVICE ".ukdb"
#define SECRET_PROGRAM "victims-secret.cl.o"
#define SECRET_ARGS " -DVICTIMS_SECRET=1"

struct attack_setting {
    struct daemon_process daemon;
    /* the victim's cache, which contains a kernel with a secret name */
    struct fixture own;
    /* the attacker's cache, which contains another kernel of the same name */
    struct fixture forged;
    struct fixture large;        /* a cache larger than a user's quota */
    int victim, attacker, admin; /* connections after the handshake */
    char key[DIGEST_HEX_SIZE];   /* hex key of the victim's kernel */
};

/* Makes the caches and starts kilnd. Does nothing unless the test runs as root. |arguments| ends
 * with NULL. */
void attack_begin(struct attack_setting *a, const char *const *arguments);
/* The set-up and tear-down of each test, which open and close the three connections. Do nothing
 * unless the test runs as root. */
int attack_connect(void **state);
int attack_disconnect(void **state);

unsigned attack_descriptors(const struct attack_setting *a);

/* Send a request, and return the code of kilnd's answer. |ret_text| is the error's message, and
 * may be NULL. */
enum kiln_code attack_ask(int fd, enum message_type type, const char *json, char ret_text[512]);
enum kiln_code attack_ask_file(int fd, enum message_type type, const char *json, const char *path);
enum kiln_code attack_import(int fd, const struct fixture *cache);
/* Sends a request, and returns the bodies of all frames of the answer. The caller owns them. */
char *attack_answer(int fd, enum message_type type, const char *json, size_t *ret_size);

struct attack_result {
    enum kiln_code code;
    unsigned tier;
    uint64_t size;
    char key[DIGEST_HEX_SIZE];
    size_t answer_size; /* size of the body of the answer's frame */
    struct digest object;
};
struct attack_result attack_fetch(int fd, const char *key);
struct attack_result attack_fetch_name(int fd, const char *name, const char *args);
/* Fetches a kernel by its source, with the option -DN=|number|. */
struct attack_result attack_fetch_source(int fd, unsigned number);

enum kiln_code attack_put(int fd, uint32_t n, unsigned tier, const char *solver, double ms);
/* Looks up the user's find record for batch size |n|. |ret_value| is in MIOpen's format, or ""
 * if there is no record. */
void attack_get(int fd, uint32_t n, char ret_value[256]);

struct attack_lease {
    enum kiln_code code;
    unsigned state; /* enum lease_result */
    uint64_t id;
    uint32_t first, count;
};
struct attack_lease attack_lease_take(int fd, uint32_t n);
struct attack_lease attack_lease_report(int fd, const struct attack_lease *held);
