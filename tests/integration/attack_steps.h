/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A real kilnd of root, and two users with separate connections.  The victim has private data,
 * which the attacker tries to get.
 *
 * Ownership  attack_teardown ends the daemon and removes all directories; the functions below close
 *            the descriptors of answers
 */
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
    struct fixture *own;    /* owned: the victim's cache, which has one kernel with a secret name */
    struct fixture *forged; /* owned: the attacker's cache, with another kernel of the same name */
    struct fixture *large;  /* owned: a cache larger than a user's quota */
    int victim, attacker, admin; /* connections after the handshake */
    char key[DIGEST_HEX_SIZE];   /* key of the victim's kernel, after its import */
};

/* Called once for a group of tests: makes directories and caches, and starts kilnd with
 * |arguments|, which ends with NULL. */
void attack_begin(struct attack_setting *a, const char *const *arguments);
void attack_end(struct attack_setting *a);
/* Called for each test: opens the three connections. Does nothing if attack_begin did nothing,
 * because the test does not run as root. */
void attack_connect(struct attack_setting *a);
void attack_disconnect(struct attack_setting *a);

/* Returns the number of kilnd's open descriptors. */
unsigned attack_descriptors(const struct attack_setting *a);

/* ---- requests ---- */

/* Sends a request, and returns the answer's code. Unless |ret_text| is NULL, it receives the
 * answer's message or JSON. */
enum kiln_code attack_ask(int fd, enum message_type type, const char *json, char ret_text[512]);
/* Like attack_ask, with a file, which is opened for the call. */
enum kiln_code attack_ask_file(int fd, enum message_type type, const char *json, const char *path);
/* Imports |cache| for the user of connection |fd|. */
enum kiln_code attack_import(int fd, const struct fixture *cache);
/* Returns the bodies of all frames of the answer, which the caller owns. */
char *attack_answer(int fd, enum message_type type, const char *json, size_t *ret_size);

struct attack_result {
    enum kiln_code code;
    unsigned tier;
    uint64_t size;
    char key[DIGEST_HEX_SIZE];
    size_t answer_size; /* size of the frame's body */
    struct digest object;
};
struct attack_result attack_fetch(int fd, const char *key);
struct attack_result attack_fetch_name(int fd, const char *name, const char *args);
/* Fetches a kernel with the options -DN=|number|. */
struct attack_result attack_fetch_source(int fd, unsigned number);

/* Records that |solver| takes |ms| for the problem with batch size |n|. Returns the answer's
 * code. */
enum kiln_code attack_put(int fd, uint32_t n, unsigned tier, const char *solver, double ms);
/* Gets the record of this problem in MIOpen's format; "" if there is none. */
void attack_get(int fd, uint32_t n, char ret_value[256]);

struct attack_lease {
    enum kiln_code code;
    unsigned state; /* enum lease_result */
    uint64_t id;
    uint32_t first, count;
};
struct attack_lease attack_lease_take(int fd, uint32_t n);
struct attack_lease attack_lease_report(int fd, const struct attack_lease *held);
