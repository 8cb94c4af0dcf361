/* SPDX-License-Identifier: MIT */
#include "libclient/fallback.h"

#include "common/clock.h"
#include "libclient/transport_socket.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MODE_VARIABLE "KILN_FALLBACK"
#define NOTICE_VARIABLE "KILN_FALLBACK_NOTICE"
/* A daemon that is started again: longer than that takes. */
#define PATIENCE_NS 3000000000ull
/* Between two looks for a daemon that is back. */
#define LOOK_EVERY_NS 2000000000ull

struct fallback {
    const char *socket_path; /* borrowed */
    bool off;
    pid_t pid;                                    /* whose engine it is */
    atomic_bool serves;                           /* the last connection is the engine's */
    _Atomic(const struct embedded_entry *) entry; /* NULL: not asked for yet */
    pthread_mutex_t mutex;                        /* of all below; held briefly */
    bool reached;                                 /* a kilnd took a connection once */
    uint64_t gone_ns;                             /* since when it is gone; 0: it is not */
    uint64_t looked_ns;                           /* when we last looked whether it is back */
    char why[512];                                /* the last connection is not kilnd's */
};

/* ---- one line, once ---- */

/* Where what is compiled goes, as the end of a sentence. */
static void say_place(const struct embedded_status *status, char *text, size_t size)
{
    if (status->role == EMBEDDED_MEMORY && status->why[0])
        snprintf(text, size, "nothing it compiles is kept (%.300s)", status->why);
    else if (status->role == EMBEDDED_MEMORY)
        snprintf(text, size, "nothing it compiles is kept");
    else
        snprintf(text, size, "what it compiles is kept in '%.300s'", status->folder);
}

static void give_notice(struct fallback *f, const char *why)
{
    static atomic_flag given = ATOMIC_FLAG_INIT;
    const char *wanted = getenv(NOTICE_VARIABLE);
    struct embedded_status status;
    char place[400], line[1100];
    if ((wanted && strcmp(wanted, "off") == 0) || atomic_flag_test_and_set(&given))
        return;
    atomic_load(&f->entry)->status(&status);
    say_place(&status, place, sizeof(place));
    int size =
        snprintf(line, sizeof(line),
                 "kiln: %.450s; this process serves itself meanwhile, %s; to have an error "
                 "instead: " MODE_VARIABLE "=off, to hide this line: " NOTICE_VARIABLE "=off\n",
                 why, place);
    if (size > 0 && write(STDERR_FILENO, line, (size_t)size) < 0)
        return; /* nobody is left to be told */
}

/* ---- life ---- */

static enum kiln_code read_word(const char *word, bool *ret_off, struct kiln_err *err)
{
    const char *origin = word ? "kiln_client_options.fallback" : MODE_VARIABLE;
    if (!word)
        word = getenv(MODE_VARIABLE);
    *ret_off = word && strcmp(word, "off") == 0;
    if (!word || !word[0] || *ret_off || strcmp(word, "embedded") == 0)
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID, "%s is '%.100s': it may be 'embedded' or 'off'", origin,
                     word);
}

enum kiln_code fallback_create(const char *word, const char *socket_path,
                               struct fallback **ret_fallback, struct kiln_err *err)
{
    bool off;
    enum kiln_code rc = read_word(word, &off, err);
    if (rc)
        return rc;
    struct fallback *f = calloc(1, sizeof(*f));
    if (!f)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a client");
    pthread_mutex_init(&f->mutex, /* attr= */ NULL);
    f->socket_path = socket_path;
    f->off = off;
    f->pid = getpid();
    *ret_fallback = f;
    return KILN_OK;
}

void fallback_destroy(struct fallback *f)
{
    const struct embedded_entry *entry = f ? atomic_load(&f->entry) : NULL;
    if (entry && getpid() == f->pid)
        entry->settle();
    free(f);
}

/* ---- connections ---- */

/* With the transport that it belongs to. */
static void on_gone(void *context)
{
    struct fallback *f = context;
    if (getpid() == f->pid)
        atomic_load(&f->entry)->let_go();
}

static enum kiln_code connect_here(struct fallback *f, struct transport **ret_transport,
                                   struct kiln_err *err)
{
    const struct embedded_entry *entry;
    struct embedded_options options;
    int fd = -1;
    enum kiln_code rc = fallback_entry(&entry, &options, err);
    if (rc)
        return rc;
    atomic_store(&f->entry, entry);
    rc = entry->connect(&options, &fd, err);
    if (rc)
        return kiln_while(err, "the engine in this process cannot serve");
    rc = transport_socket_adopt(fd, ret_transport, err);
    if (rc)
        entry->let_go();
    else
        transport_socket_on_gone(*ret_transport, on_gone, f);
    return rc;
}

/* A daemon that was there may be on its way back: the link asks again and again meanwhile. */
static bool is_awaited(struct fallback *f, enum kiln_code rc)
{
    uint64_t now = clock_monotonic_ns();
    pthread_mutex_lock(&f->mutex);
    if (!f->gone_ns)
        f->gone_ns = now;
    bool is_on_its_way = f->reached && now - f->gone_ns < PATIENCE_NS;
    pthread_mutex_unlock(&f->mutex);
    return rc == KILN_UNAVAILABLE && is_on_its_way;
}

static enum kiln_code fall(struct fallback *f, struct transport **ret_transport,
                           struct kiln_err *err)
{
    struct kiln_err why = *err;
    enum kiln_code rc = connect_here(f, ret_transport, err);
    if (rc) {
        struct kiln_err second = *err;
        return kiln_fail(err, why.code, "%s; nor does this process serve itself: %s", why.text,
                         second.text);
    }
    pthread_mutex_lock(&f->mutex);
    snprintf(f->why, sizeof(f->why), "%s", why.text);
    f->looked_ns = clock_monotonic_ns();
    pthread_mutex_unlock(&f->mutex);
    atomic_store(&f->serves, true);
    give_notice(f, why.text);
    return KILN_OK;
}

static bool is_first(const struct fallback *f) { return !f->off && fallback_is_first(); }

/* What the program was built to do is worth no notice. */
static enum kiln_code connect_first(struct fallback *f, struct transport **ret_transport,
                                    struct kiln_err *err)
{
    enum kiln_code rc = connect_here(f, ret_transport, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&f->mutex);
    snprintf(f->why, sizeof(f->why), "the engine is built into this program");
    pthread_mutex_unlock(&f->mutex);
    atomic_store(&f->serves, true);
    return KILN_OK;
}

enum kiln_code fallback_connect(struct fallback *f, struct transport **ret_transport,
                                struct kiln_err *err)
{
    if (is_first(f))
        return connect_first(f, ret_transport, err);
    enum kiln_code rc = transport_socket_connect(f->socket_path, ret_transport, err);
    bool is_absent = rc == KILN_UNAVAILABLE || rc == KILN_DENIED;
    if (is_absent && !f->off && !is_awaited(f, rc))
        return fall(f, ret_transport, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&f->mutex);
    f->reached = true;
    f->gone_ns = 0;
    pthread_mutex_unlock(&f->mutex);
    atomic_store(&f->serves, false);
    return KILN_OK;
}

bool fallback_may_leave(struct fallback *f)
{
    if (!atomic_load(&f->serves) || is_first(f))
        return false;
    uint64_t now = clock_monotonic_ns();
    pthread_mutex_lock(&f->mutex);
    bool is_time = now - f->looked_ns >= LOOK_EVERY_NS;
    if (is_time)
        f->looked_ns = now;
    pthread_mutex_unlock(&f->mutex);
    return is_time && transport_socket_answers(f->socket_path);
}

bool fallback_serves(struct fallback *f, char *ret_reason, size_t size)
{
    if (!atomic_load(&f->serves))
        return false;
    struct embedded_status status;
    char place[400];
    atomic_load(&f->entry)->status(&status);
    say_place(&status, place, sizeof(place));
    pthread_mutex_lock(&f->mutex);
    snprintf(ret_reason, size, "%.250s; this process serves itself, %.200s", f->why, place);
    pthread_mutex_unlock(&f->mutex);
    return true;
}
