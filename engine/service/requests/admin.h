/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Administrative requests: JSON in, JSON out.
 *
 * Role       reads and checks the question, runs blocking work on a work queue, sends the answer
 * Ownership  a deferred request: it lives until its work is done, even if its caller has left
 * Threading  work runs on a work queue, everything else on the engine's thread
 */
#include "engine/service/internal.h"

enum member_type { MEMBER_TEXT, MEMBER_COUNT, MEMBER_FLAG, MEMBER_TEXTS };

struct admin_member {
    const char *name; /* NULL ends the list */
    enum member_type type;
};

#define ADMIN_FILES_MAX 64

struct admin;

struct admin_kind {
    enum work_queue work_queue;
    size_t own_size; /* bytes of a->own; 0: none */
    bool scans;      /* scans the whole store, which may take seconds */
    bool is_brief;   /* |work|, on WORK_QUEUE_READ, takes less than a millisecond */
    /* The last step removes files, so it must run even if the caller has left. */
    bool removes;
    /* |work| must see the kernels that kilnd has compiled for the caller, which it stores after it
     * has answered. The first step therefore waits for these writes. */
    bool follows_writes;
    const struct admin_kind *dry_run; /* used if the question sets dry_run; may be NULL */
    const struct admin_member *members;
    /* Copies what |work| needs, on the engine's thread before each |work|. May be NULL. */
    void (*begin)(struct admin *a);
    /* Runs on the work queue. Fills |answer|, or returns a code and fills |err|. Sets |more| to
     * be called again in a later step, so that other users' work runs in between. */
    enum kiln_code (*work)(struct admin *a);
    /* Completes the answer, on the engine's thread. NULL: the work queue converts the answer to
     * text, because that may take long. */
    void (*finish)(struct admin *a);
    /* Runs on the engine's thread after each call of |work|, even a failed one. */
    void (*ended)(struct admin *a);
    /* Frees what a->own owns, but not a->own. May be NULL. */
    void (*release)(void *own);
};

struct admin {
    struct deferred base;
    const struct admin_kind *kind;
    void *own;
    char *text;                            /* owned; the answer as text; NULL: not converted yet */
    struct object *files[ADMIN_FILES_MAX]; /* owned references; descriptors of the answer */
    size_t file_count;
    bool more;
    bool is_begun;
};

/* Parses a question. An empty body counts as {}. The message of KILN_INVALID names the member that
 * is not in |members|, or that has the wrong type. */
KILN_MUST_CHECK enum kiln_code admin_read(const struct frame_header *header, struct bytes body,
                                          const struct admin_member *members,
                                          struct json **ret_question, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code admin_run(struct engine *e, const struct request *request,
                                         const struct admin_kind *kind, struct kiln_err *err);
#define ADMIN_HANDLER(name_, kind_)                                                     \
    enum kiln_code handle_##name_(struct engine *e, struct caller *caller,              \
                                  const struct frame_header *header, struct bytes body, \
                                  struct kiln_err *err)                                 \
    {                                                                                   \
        return admin_run(e, &(struct request){ caller, header, body }, &(kind_), err);  \
    }
void admin_send(struct engine *e, struct caller *caller, uint64_t id, const struct json *answer,
                uint16_t flags);
void admin_send_files(const struct deferred *d, struct caller *caller, struct object *const *files,
                      size_t file_count);
/* Returns the key of the only kernel that the caller may see and whose key begins with |prefix|. */
KILN_MUST_CHECK enum kiln_code admin_find_kernel(struct admin *a, const char *prefix,
                                                 struct digest *ret_key);
/* Returns JSON for the kernel. Includes the kernel's owner only if the caller is the owner or an
 * administrator. */
struct json *kernel_to_json(const struct admin *a, const struct kernel_record *record);
struct json *toolchain_to_json(const struct toolchain *tc);

extern const struct admin_member admin_no_members[];
