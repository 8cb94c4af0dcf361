/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/utf8.h"
#include "engine/service/budget.h"
#include "engine/service/requests/client_compiles.h"
#include "engine/service/requests/results.h"
#include "engine/store/kernel_name.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Maximum time that a request waits. Then the reply is KILN_BUSY, and the client compiles. */
#define WAIT_MAX_MS 60000u
/* How long a client keeps the right to compile a key alone. After that, the next client may
 * compile, too, because the first client may have stopped. */
#define HELD_MAX_NS 60000000000u
/* Bytes charged for an unfinished compile, so that no user can begin millions. */
#define COMPILE_COST 4096u
#define RESULT_MAX (64u << 20)
#define PIECE_SIZE (64u << 10)
#define STEP_SIZE (4u << 20)
#define SHOWN_MAX 256
#define OPTIONS_MAX 2048

struct client_compile {
    struct hash_link by_key;
    struct list_link link;
    struct digest key;     /* contains the uid */
    struct caller *holder; /* borrowed; the connection that may compile */
    uint64_t request_id;
    uint64_t since_ns;
    uid_t uid;
    struct list waiting; /* of struct begin, in order of arrival; borrowed */
};

struct keys { /* keys in the store whose objects may answer a compile_begin */
    struct digest own, shared;
    bool has_program;
    struct digest program; /* the key if kilnd itself has compiled the program */
};

struct begin {
    struct deferred base;
    struct fetch_ticket ticket;
    bool is_fetching;
    struct keys keys;
    uint32_t inline_limit;
    uint64_t until_ns;
    uint64_t parts_before; /* value of client_compiles.parts when the look-up began */
    struct list_link place;
};

struct client_compiles {
    struct hash_table compiles;
    uint64_t parts; /* number of files that came with compile_end requests */
};

enum kiln_code client_compiles_create(struct client_compiles **ret_compiles, struct kiln_err *err)
{
    struct client_compiles *compiles = calloc(1, sizeof(*compiles));
    if (!compiles)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the compiles of clients");
    *ret_compiles = compiles;
    return KILN_OK;
}

void client_compiles_destroy(struct client_compiles *compiles)
{
    if (!compiles)
        return;
    hash_table_done(&compiles->compiles);
    free(compiles);
}

struct answer {
    struct fetch_result result;
    enum compile_answer which;
};

static void send_answer(struct engine *e, struct caller *caller, uint64_t request_id,
                        uint32_t inline_limit, const struct answer *answer)
{
    const struct result_options options = { .index = answer->which, .inline_limit = inline_limit };
    struct result_list list;
    result_list_begin_frame(&list, e, caller);
    result_list_add(&list, &options, &answer->result);
    result_list_send(&list, caller, request_id, 0);
}

static void answer_begin(struct begin *b, const struct answer *answer)
{
    struct engine *e = b->base.engine;
    struct caller *caller = b->base.caller;
    uint64_t request_id = b->base.request_id;
    uint32_t inline_limit = b->inline_limit;
    deferred_destroy(&b->base);
    send_answer(e, caller, request_id, inline_limit, answer);
}

/* Answers without a result. |code| is KILN_NOT_FOUND to give the client the right to compile, and
 * KILN_BUSY if another client compiles. */
static void answer_without(struct begin *b, enum kiln_code code)
{
    const struct answer answer = { .result = { .err = { .code = code }, .key = b->keys.own } };
    answer_begin(b, &answer);
}

static struct client_compile *find_compile(struct engine *e, const struct digest *key)
{
    HASH_EACH (&e->client_compiles->compiles, digest_hash(key), struct client_compile, by_key, c)
        if (digest_equal(&c->key, key))
            return c;
    return NULL;
}

static void give_to(struct client_compile *c, const struct begin *b)
{
    list_remove(&c->link);
    list_append(&b->base.caller->compiles, &c->link);
    c->holder = b->base.caller;
    c->request_id = b->base.request_id;
    c->since_ns = clock_monotonic_ns();
}

static struct client_compile *create_compile(struct begin *b, struct kiln_err *err)
{
    struct engine *e = b->base.engine;
    if (budget_take(e->budget, b->base.uid, COMPILE_COST, err))
        return NULL;
    struct client_compile *c = calloc(1, sizeof(*c));
    if (!c) {
        budget_return(e->budget, b->base.uid, COMPILE_COST);
        kiln_fail(err, KILN_NO_MEMORY, "cannot note that a client compiles: out of memory");
        return NULL;
    }
    c->key = b->keys.own;
    c->uid = b->base.uid;
    list_init(&c->waiting);
    hash_table_add(&e->client_compiles->compiles, &c->by_key, digest_hash(&c->key));
    give_to(c, b);
    return c;
}

static void destroy_compile(struct engine *e, struct client_compile *c)
{
    hash_table_remove(&e->client_compiles->compiles, &c->by_key);
    list_remove(&c->link);
    budget_return(e->budget, c->uid, COMPILE_COST);
    free(c);
}

static bool answer_with_program(struct begin *b)
{
    const struct fetch_options options = { .key = b->keys.program };
    struct answer answer = { .which = COMPILE_ANSWER_PROGRAM };
    struct digest key;
    b->ticket = (struct fetch_ticket){ .uid = b->base.uid, .is_rtc = true };
    if (!b->keys.has_program ||
        !fetch_at_hand(b->base.engine, &options, &b->ticket, &key, &answer.result))
        return false;
    answer_begin(b, &answer);
    return true;
}

/* Gives the right to compile to the first waiting request whose program kilnd has not compiled
 * meanwhile. Answers the requests before it with kilnd's results. If no request is left, destroys
 * |c|. */
static void pass_on(struct engine *e, struct client_compile *c)
{
    while (!list_is_empty(&c->waiting)) {
        struct begin *next = LIST_FIRST(&c->waiting, struct begin, place);
        list_remove(&next->place);
        if (answer_with_program(next))
            continue;
        give_to(c, next);
        answer_without(next, KILN_NOT_FOUND);
        return;
    }
    destroy_compile(e, c);
}

void client_compiles_leave(struct engine *e, struct caller *caller)
{
    LIST_EACH (&caller->compiles, struct client_compile, link, c)
        pass_on(e, c);
}

void client_compiles_cancel(struct engine *e, struct caller *caller, uint64_t request_id)
{
    LIST_EACH (&caller->compiles, struct client_compile, link, c)
        if (c->request_id == request_id) {
            pass_on(e, c);
            return;
        }
}

void client_compiles_tick(struct engine *e)
{
    uint64_t now = clock_monotonic_ns();
    LIST_EACH (&requests_group(e->requests, GROUP_COMPILE_WAITS)->members, struct begin,
               base.member, b)
        if (list_holds(&b->place) && now >= b->until_ns)
            answer_without(b, KILN_BUSY);
}

void client_compiles_drain(struct engine *e)
{
    struct kiln_err why = KILN_ERR_INIT;
    kiln_fail(&why, KILN_UNAVAILABLE, "kilnd is stopping");
    LIST_EACH (&requests_group(e->requests, GROUP_COMPILE_WAITS)->members, struct begin,
               base.member, b)
        if (list_holds(&b->place))
            deferred_fail(&b->base, &why, NULL);
}

static bool stop_begin(struct deferred *d)
{
    struct begin *b = (struct begin *)d;
    if (b->is_fetching)
        fetch_cancel(d->engine, &b->ticket);
    b->is_fetching = false;
    return true;
}

static void release_begin(struct deferred *d) { list_remove(&((struct begin *)d)->place); }

static const struct deferred_kind begin_kind = { .size = sizeof(struct begin),
                                                 .stop = stop_begin,
                                                 .release = release_begin };

/* Gives this client the right to compile if no client compiles this key. Otherwise, lets the
 * request wait for the other client's result. */
static void compile_or_wait(struct begin *b)
{
    struct engine *e = b->base.engine;
    struct client_compile *c = find_compile(e, &b->keys.own);
    struct answer refusal = { .result = { .key = b->keys.own } };
    if (c && clock_monotonic_ns() >= c->since_ns + HELD_MAX_NS) {
        give_to(c, b);
        answer_without(b, KILN_NOT_FOUND);
    } else if (c && clock_monotonic_ns() < b->until_ns) {
        e->stats.client_compile_waits++;
        list_append(&c->waiting, &b->place);
    } else if (c) {
        answer_without(b, KILN_BUSY);
    } else if (create_compile(b, &refusal.result.err)) {
        answer_without(b, KILN_NOT_FOUND);
    } else {
        answer_begin(b, &refusal);
    }
}

static void on_own_result(struct fetch_ticket *ticket, const struct fetch_result *result);
static void on_program(struct fetch_ticket *ticket, const struct fetch_result *result);

static void look_up(struct begin *b, enum compile_answer which)
{
    struct engine *e = b->base.engine;
    const bool is_program = which == COMPILE_ANSWER_PROGRAM;
    const struct fetch_options own = { .key = b->keys.own, .shared_key = &b->keys.shared };
    const struct fetch_options program = { .key = b->keys.program, .only_stored = true };
    struct answer answer = { .which = which };
    b->ticket = (struct fetch_ticket){ .uid = b->base.uid,
                                       .is_rtc = true,
                                       .ready = is_program ? on_program : on_own_result };
    b->parts_before = e->client_compiles->parts;
    b->is_fetching = !fetch_begin(e, is_program ? &program : &own, &b->ticket, &answer.result);
    if (!b->is_fetching)
        answer_begin(b, &answer);
}

/* Repeats the look-up if no client compiles the result now, and some client has sent a file
 * meanwhile. That file may be the result. */
static void on_own_result(struct fetch_ticket *ticket, const struct fetch_result *result)
{
    struct begin *b = LIST_ENTRY(ticket, struct begin, ticket);
    struct engine *e = b->base.engine;
    b->is_fetching = false;
    if (result->err.code != KILN_NOT_FOUND)
        answer_begin(b, &(struct answer){ .result = *result });
    else if (e->client_compiles->parts != b->parts_before && !find_compile(e, &b->keys.own))
        look_up(b, COMPILE_ANSWER_OWN);
    else
        compile_or_wait(b);
}

static void on_program(struct fetch_ticket *ticket, const struct fetch_result *result)
{
    struct begin *b = LIST_ENTRY(ticket, struct begin, ticket);
    b->is_fetching = false;
    if (result->err.code == KILN_NOT_FOUND)
        look_up(b, COMPILE_ANSWER_OWN);
    else
        answer_begin(b, &(struct answer){ *result, COMPILE_ANSWER_PROGRAM });
}

static struct keys keys_of(const struct caller *caller, const struct message_compile_begin *m)
{
    return (struct keys){
        .own = kernel_client_key((uint64_t)caller->uid, &m->key),
        .shared = kernel_client_key(KERNEL_SCOPE_EVERYONE, &m->key),
        .has_program = m->flags & COMPILE_OR_PROGRAM,
        .program = kernel_client_key(KERNEL_SCOPE_PROGRAMS, &m->program),
    };
}

static struct begin *create_begin(struct engine *e, struct caller *caller, uint64_t request_id,
                                  const struct message_compile_begin *m, struct kiln_err *err)
{
    uint64_t wait_ms = m->wait_ms < WAIT_MAX_MS ? m->wait_ms : WAIT_MAX_MS;
    struct begin *b = deferred_create(&begin_kind, e, caller, request_id, err);
    if (!b)
        return NULL;
    b->keys = keys_of(caller, m);
    b->inline_limit = m->inline_limit;
    b->until_ns = clock_monotonic_ns() + wait_ms * 1000000u;
    if (!deferred_wait_or_destroy(
            &b->base,
            deferred_join(&b->base, requests_group(e->requests, GROUP_COMPILE_WAITS), err)))
        return b;
    return NULL;
}

static bool find_at_hand(struct engine *e, const struct keys *keys, struct fetch_ticket *ticket,
                         struct answer *ret_answer)
{
    const struct fetch_options program = { .key = keys->program };
    const struct fetch_options own = { .key = keys->own, .shared_key = &keys->shared };
    struct digest key;
    ret_answer->which = COMPILE_ANSWER_PROGRAM;
    if (keys->has_program && fetch_at_hand(e, &program, ticket, &key, &ret_answer->result))
        return true;
    ret_answer->which = COMPILE_ANSWER_OWN;
    return fetch_at_hand(e, &own, ticket, &key, &ret_answer->result);
}

enum kiln_code handle_compile_begin(struct engine *e, struct caller *caller,
                                    const struct frame_header *header, struct bytes body,
                                    struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_compile_begin m = message_compile_begin_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_compile_begin, err);
    if (rc)
        return rc;
    const struct keys keys = keys_of(caller, &m);
    struct fetch_ticket ticket = { .uid = caller->uid, .is_rtc = true };
    struct answer answer;
    if (find_at_hand(e, &keys, &ticket, &answer)) {
        send_answer(e, caller, header->request_id, m.inline_limit, &answer);
        return KILN_OK;
    }
    struct begin *b = create_begin(e, caller, header->request_id, &m, err);
    if (b)
        look_up(b, keys.has_program ? COMPILE_ANSWER_PROGRAM : COMPILE_ANSWER_OWN);
    else
        fetch_refuse(e, &ticket, &keys.own, err);
    return b ? KILN_OK : err->code;
}

struct end {
    struct deferred base;
    struct digest key, client_key;
    enum object_kind kind;
    int file;
    uint64_t size; /* bytes when the file arrived; charged to the user */
    uint64_t compile_ns;
    uint64_t created;
    char target[LIMIT_TARGET_TEXT], toolchain[SHOWN_MAX], program[SHOWN_MAX], options[OPTIONS_MAX];
    int copy;
    uint64_t copied;
    struct sha256 sum;
    struct object *object; /* owned reference to the copy; NULL: not copied */
    struct kernel_putting putting;
};

static void release_end(struct deferred *d)
{
    struct end *x = (struct end *)d;
    if (x->file >= 0)
        engine_close_file(d->engine, d->uid, x->file);
    kernel_store_put_abandon(d->engine->store, &x->putting);
    fd_auto(&x->copy);
    object_unref(x->object);
}

static void send_recorded(struct engine *e, struct caller *caller, uint64_t request_id)
{
    buffer_clear(&e->body);
    message_recorded_write(&e->body, &(struct message_recorded){ .count = 1 });
    service_reply_body(e, caller, MESSAGE_recorded, request_id);
}

static void reply_recorded(struct deferred *d, struct caller *caller)
{
    send_recorded(d->engine, caller, d->request_id);
}

static const struct deferred_kind end_kind = { .size = sizeof(struct end),
                                               .reply = reply_recorded,
                                               .release = release_end };

static enum kiln_code copy_piece(struct end *x, struct kiln_err *err)
{
    uint8_t piece[PIECE_SIZE];
    const uint64_t left = x->size - x->copied;
    const struct bytes read = bytes_of(piece, left < PIECE_SIZE ? left : PIECE_SIZE);
    if (fs_read_at(x->file, piece, read.size, (off_t)x->copied) != (ssize_t)read.size)
        return kiln_fail(err, KILN_INVALID, "compile_end: the file changed while kilnd read it");
    sha256_put(&x->sum, read);
    x->copied += read.size;
    return fs_write_all(x->copy, read, err);
}

static enum kiln_code begin_copy(struct end *x, struct kiln_err *err)
{
    sha256_init(&x->sum);
    return fs_memfd("kiln-object", &x->copy, err);
}

static enum kiln_code end_copy(struct end *x, struct kiln_err *err)
{
    struct digest digest = sha256_end(&x->sum);
    enum kiln_code rc = fs_seal(x->copy, err);
    if (rc)
        return rc;
    int fd = x->copy;
    x->copy = -1;
    rc = object_from_checked(fd, x->size, &digest, &x->object, err);
    if (rc)
        return rc;
    x->object->compile_ns = x->compile_ns;
    x->object->kind = x->kind;
    x->object->is_private = true;
    x->object->owner = (uint32_t)x->base.uid;
    return KILN_OK;
}

/* Copies the next part of the file. kilnd uses a copy because the client can still change its file.
 * Also, a file may have holes: reading them in a mapping would allocate memory that counts as
 * kilnd's, but that is freed only after the client has closed the file. */
static void copy_some(struct deferred *d)
{
    struct end *x = (struct end *)d;
    const uint64_t left = x->size - x->copied,
                   end = left < STEP_SIZE ? x->size : x->copied + STEP_SIZE;
    if (x->copy < 0)
        d->rc = begin_copy(x, &d->err);
    while (!d->rc && x->copied < end)
        d->rc = copy_piece(x, &d->err);
    if (!d->rc && x->copied == x->size)
        d->rc = end_copy(x, &d->err);
    if (d->rc)
        kiln_while(&d->err, "keeping the result of a compile");
}

static bool has_more_to_copy(struct deferred *d)
{
    return !d->rc && d->caller && !((struct end *)d)->object;
}

static void store_some(struct deferred *d)
{
    struct end *x = (struct end *)d;
    const struct kernel_record record = {
        .key = x->key,
        .client_key = x->client_key,
        .kind = x->kind,
        .object = x->object->digest,
        .target = x->target,
        .toolchain = x->toolchain,
        .program = x->program,
        .options = x->options,
        .version = KILN_VERSION,
        .raw_size = x->object->size,
        .compile_ns = x->compile_ns,
        .created = x->created,
        .last_used = x->created,
        .uid = (uint32_t)d->uid,
        .is_private = true,
    };
    x->putting.record = &record;
    x->putting.object = x->object;
    d->rc = kernel_store_put_some(d->engine->store, &x->putting, &d->err);
    x->putting.record = NULL;
}

static bool has_more_to_store(struct deferred *d)
{
    return d->caller && !((struct end *)d)->putting.is_over;
}

static void label_result(struct end *x)
{
    struct object_origin what = { .program = ACCOUNTING_RTC };
    snprintf(what.target, sizeof(what.target), "%s", x->target);
    x->object->accounting_kind = accounting_kind_of(x->base.engine->metrics.accounting, &what);
}

/* Gives the result to the requests that wait for it, even if the result could not be stored. */
static void give_result(struct end *x)
{
    struct engine *e = x->base.engine;
    struct client_compile *c = find_compile(e, &x->key);
    const struct answer answer = {
        .result = { .tier = TIER_COMPILED, .key = x->key, .object = x->object }
    };
    label_result(x);
    hot_set_insert(e->hot, &x->key, x->object);
    e->stats.client_compiles += x->kind == OBJECT_RTC_RESULT;
    e->client_compiles->parts++;
    if (!c)
        return;
    while (!list_is_empty(&c->waiting))
        answer_begin(LIST_FIRST(&c->waiting, struct begin, place), &answer);
    destroy_compile(e, c);
}

static void give_back(struct engine *e, const struct digest *key, const struct caller *caller)
{
    struct client_compile *c = find_compile(e, key);
    if (c && c->holder == caller)
        pass_on(e, c);
}

static void end_compile(struct deferred *d)
{
    struct end *x = (struct end *)d;
    if (x->object)
        give_result(x);
    else
        give_back(d->engine, &x->key, d->caller);
    deferred_end(d);
}

static const struct deferred_step store_step = { .work_queue = WORK_QUEUE_WRITE,
                                                 .work = store_some,
                                                 .again = has_more_to_store,
                                                 .done = end_compile };

static void store_copy(struct deferred *d)
{
    if (d->rc || !d->caller)
        end_compile(d);
    else
        deferred_run(d, &store_step);
}

static const struct deferred_step copy_step = {
    .work_queue = WORK_QUEUE_READ, .work = copy_some, .again = has_more_to_copy, .done = store_copy
};

/* Takes the file that came with the request. Accepts only memory files, because fstat(2) of a file
 * on FUSE would wait for the client's filesystem. F_GET_SEALS fails at once for other files. */
static enum kiln_code take_file(struct end *x, struct caller *caller, struct kiln_err *err)
{
    struct stat seen;
    if (fcntl(caller->files[0], F_GET_SEALS) < 0 || fstat(caller->files[0], &seen) ||
        seen.st_size <= 0)
        return kiln_fail(err, KILN_INVALID, "compile_end: the descriptor is not a memory file");
    if ((uint64_t)seen.st_size > RESULT_MAX)
        return kiln_fail(err, KILN_INVALID, "compile_end: the result has %lld bytes; at most %u",
                         (long long)seen.st_size, RESULT_MAX);
    enum kiln_code rc = deferred_charge(&x->base, (uint64_t)seen.st_size, err);
    if (rc)
        return rc;
    x->size = (uint64_t)seen.st_size;
    x->file = caller->files[0];
    caller->files[0] = -1;
    return KILN_OK;
}

static bool is_printable(const char *text, size_t size)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + size;
    while (at < end && *at && utf8_size(at) && !utf8_control(at))
        at += utf8_size(at);
    return at == end;
}

static enum kiln_code take_text(const char *what, struct bytes text, size_t size, char *ret_text,
                                struct kiln_err *err)
{
    if (text.size < size) {
        if (text.size)
            memcpy(ret_text, text.data, text.size);
        ret_text[text.size] = '\0';
        if (is_printable(ret_text, text.size))
            return KILN_OK;
    }
    return kiln_fail(err, KILN_INVALID,
                     "compile_end: the %s must be printable UTF-8 of less than %zu bytes", what,
                     size);
}

static enum kiln_code take_texts(struct end *x, const struct message_compile_end *m,
                                 struct kiln_err *err)
{
    enum kiln_code rc = take_text("target", m->target, sizeof(x->target), x->target, err);
    if (!rc)
        rc = take_text("toolchain", m->toolchain, sizeof(x->toolchain), x->toolchain, err);
    if (!rc)
        rc = take_text("program", m->program, sizeof(x->program), x->program, err);
    return rc ? rc : take_text("options", m->options, sizeof(x->options), x->options, err);
}

static enum object_kind kind_of_part(uint8_t part)
{
    static const enum object_kind kinds[COMPILE_PARTS] = {
        [COMPILE_PART_RESULT] = OBJECT_RTC_RESULT,
        [COMPILE_PART_FILES] = OBJECT_RTC_FILES,
        [COMPILE_PART_MARK] = OBJECT_RTC_MARK,
    };
    return kinds[part];
}

static enum kiln_code take_result(struct engine *e, struct caller *caller, uint64_t request_id,
                                  const struct message_compile_end *m, struct kiln_err *err)
{
    if (m->part >= COMPILE_PARTS)
        return kiln_fail(err, KILN_INVALID, "compile_end: there is no part %u", m->part);
    struct end *x = deferred_create(&end_kind, e, caller, request_id, err);
    if (!x)
        return err->code;
    x->file = x->copy = -1;
    x->key = kernel_client_key((uint64_t)caller->uid, &m->key);
    x->client_key = m->key;
    x->kind = kind_of_part(m->part);
    x->created = clock_wall_s();
    x->compile_ns = m->compile_ns;
    enum kiln_code rc = take_texts(x, m, err);
    if (!rc)
        rc = take_file(x, caller, err);
    if (!rc)
        deferred_run(&x->base, &copy_step);
    return deferred_wait_or_destroy(&x->base, rc);
}

/* Ends the compile even if the request is refused, because a client of another build may have no
 * other way to end it. |key| is the first field in all builds. */
enum kiln_code handle_compile_end(struct engine *e, struct caller *caller,
                                  const struct frame_header *header, struct bytes body,
                                  struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_compile_end m = message_compile_end_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_compile_end, err);
    const bool has_result = caller->file_count > 0;
    if (!rc && has_result)
        rc = take_result(e, caller, header->request_id, &m, err);
    if ((rc || !has_result) && body.size >= DIGEST_SIZE) {
        struct digest key = kernel_client_key((uint64_t)caller->uid, &m.key);
        give_back(e, &key, caller);
    }
    if (!rc && !has_result)
        send_recorded(e, caller, header->request_id);
    return rc;
}
