/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One real kilnd of root's, and two users who ask it over sockets of their own: one has something,
 * the other one wants it.
 *
 * Ownership  attack_teardown ends the daemon and removes all directories; answers' descriptors are
 *            closed here
 */
#include "tests/support/raw_client.h"
#include "tests/unit/engine/miopen/kern_db_fixture.h"

#define VICTIM 45001
#define ATTACKER 45002
#define NOBODYS 65534 /* the overflow uid */

#define DEVICE "gfx906_60"
#define CACHE_NAME DEVICE ".ukdb"
#define SECRET_PROGRAM "victims-secret.cl.o"
#define SECRET_ARGS " -DVICTIMS_SECRET=1"

struct arena {
    struct daemon_process daemon;
    struct fixture *own;         /* owned: the victim's cache, one kernel of a secret name */
    struct fixture *forged;      /* owned: the attacker's, another kernel under the same name */
    struct fixture *large;       /* owned: more than a user's quota */
    int victim, attacker, admin; /* greeted connections */
    char key[DIGEST_HEX_SIZE];   /* of the victim's kernel, where he has imported it */
};

/* Root only: the test prints why, and is skipped. */
void attack_need_root(void);
/* For a whole group of tests: directories and caches, and with |arguments| (NULL-terminated) kilnd.
 */
void attack_begin(struct arena *a, const char *const *arguments);
void attack_end(struct arena *a);
/* For each test: the three connections.  An arena that never began (no root) has none. */
void attack_connect(struct arena *a);
void attack_disconnect(struct arena *a);

/* How many descriptors kilnd has open. */
unsigned attack_descriptors(const struct arena *a);

/* ---- questions ---- */

/* The answer's code; with |ret_text| also its sentence, or its JSON. */
enum kiln_code attack_ask(int fd, enum message_type type, const char *json, char ret_text[512]);
/* The same with a file, opened for the call. */
enum kiln_code attack_ask_file(int fd, enum message_type type, const char *json, const char *path);
/* Imports |cache| as the asker's own. */
enum kiln_code attack_import(int fd, const struct fixture *cache);
/* The whole body of the answer, from the first frame to the last; owned by the caller. */
char *attack_answer(int fd, enum message_type type, const char *json, size_t *ret_size);

struct attack_result {
    enum kiln_code code;
    unsigned tier;
    uint64_t size;
    char key[DIGEST_HEX_SIZE];
    size_t answer_size; /* of the frame's body */
    struct digest object;
};
struct attack_result attack_fetch(int fd, const char *key);
struct attack_result attack_fetch_name(int fd, const char *name, const char *args);
/* Compiles, or finds, a kernel whose options are -DN=|number|. */
struct attack_result attack_fetch_source(int fd, unsigned number);

/* Records that |solver| takes |ms| for the problem of batch size |n|: the error's code. */
enum kiln_code attack_put(int fd, uint32_t n, unsigned tier, const char *solver, double ms);
/* What is recorded for it, as MIOpen writes it; "" for nothing. */
void attack_get(int fd, uint32_t n, char ret_value[256]);

struct attack_lease {
    enum kiln_code code;
    unsigned state; /* enum lease_result */
    uint64_t id;
    uint32_t first, count;
};
struct attack_lease attack_lease_take(int fd, uint32_t n);
struct attack_lease attack_lease_report(int fd, const struct attack_lease *held);
