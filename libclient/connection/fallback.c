/* SPDX-License-Identifier: MIT */
#include "libclient/connection/fallback.h"

#include "common/base/clock.h"
#include "common/base/units.h"
#include "libclient/connection/daemon_check.h"
#include "libclient/connection/substitute.h"
#include "libclient/connection/transport_socket.h"
#include "libclient/load_lock.h"
#include "libclient/notice.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODE_VARIABLE "KILN_FALLBACK"
#define NOTICE_VARIABLE "KILN_FALLBACK_NOTICE"
#define GRACE_VARIABLE "KILN_FALLBACK_PATIENCE"
#define GRACE_MS 5000u
#define GRACE_MAX_MS 3600000u
#define MS 1000000ull
/* How long to wait for a kilnd that was reachable before or is busy.  A daemon can restart in this
 * time, and a full daemon can accept another connection. */
#define RETURN_NS 3000000000ull

struct fallback {
    struct fallback_options options;
    bool off;
    unsigned grace_ms;
    atomic_bool serves;
    pthread_mutex_t mutex;
    bool reached;
    /* When attempts to reach kilnd began to fail. 0 if the last attempt succeeded. */
    uint64_t failing_ns;
    /* The code with which kilnd rejected this client, or KILN_OK. */
    enum kiln_code refusal;
    struct daemon_check check;
    char why[512];
    struct substitute_use use; /* |use.failures| is used only by the thread that connects */
};

static void print_notice(const char *why, const char *place)
{
    static atomic_bool is_given;
    const char *setting = getenv(NOTICE_VARIABLE);
    char line[1100];
    if ((setting && strcmp(setting, "off") == 0) || atomic_exchange(&is_given, true))
        return;
    int size = snprintf(line, sizeof(line),
                        "kiln: %.400s; meanwhile %s; to get an error instead, set " MODE_VARIABLE
                        "=off; to hide this line, set " NOTICE_VARIABLE "=off\n",
                        why, place);
    if (size > 0)
        notice_print(line, (size_t)size);
}

static enum kiln_code read_mode(const char *mode, bool *ret_off, struct kiln_err *err)
{
    const char *origin = mode ? "kiln_client_options.fallback" : MODE_VARIABLE;
    if (!mode)
        mode = getenv(MODE_VARIABLE);
    *ret_off = mode && strcmp(mode, "off") == 0;
    if (!mode || !mode[0] || *ret_off || strcmp(mode, substitute.mode) == 0)
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID, "%s is '%.100s': set it to '%s' or 'off'", origin, mode,
                     substitute.mode);
}

static enum kiln_code read_grace(unsigned *ret_ms, struct kiln_err *err)
{
    const char *text = getenv(GRACE_VARIABLE);
    *ret_ms = GRACE_MS;
    if (!text || !text[0])
        return KILN_OK;
    uint64_t ms = 0;
    if (!units_parse_number(text, GRACE_MAX_MS, &ms) || ms < 1)
        return kiln_fail(err, KILN_INVALID,
                         GRACE_VARIABLE " is '%.100s': set it to 1 to %u milliseconds", text,
                         GRACE_MAX_MS);
    *ret_ms = (unsigned)ms;
    return KILN_OK;
}

enum kiln_code fallback_create(const struct fallback_options *options,
                               struct fallback **ret_fallback, struct kiln_err *err)
{
    bool off;
    unsigned grace_ms;
    enum kiln_code rc = read_mode(options->mode, &off, err);
    if (!rc)
        rc = read_grace(&grace_ms, err);
    if (rc)
        return rc;
    struct fallback *f = calloc(1, sizeof(*f));
    if (!f)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a client");
    pthread_mutex_init(&f->mutex, NULL);
    f->options = *options;
    f->off = off;
    f->grace_ms = grace_ms;
    if (!substitute.is_first)
        /* From now on, fork() waits while another thread starts a private kilnd. */
        load_lock_watch();
    *ret_fallback = f;
    return KILN_OK;
}

void fallback_destroy(struct fallback *f)
{
    if (!f)
        return;
    daemon_check_done(&f->check);
    free(f);
}

const char *fallback_mode(const struct fallback *f) { return f->off ? "off" : substitute.mode; }

uint64_t fallback_grace_ns(const struct fallback *f) { return f->grace_ms * MS; }

/* Returns true if the substitute failed with KILN_IO, but kilnd is only unavailable or busy.
 * KILN_IO means a lasting fault of the host, so the caller returns it instead of kilnd's code. */
static bool lasts_longer(enum kiln_code other, enum kiln_code kilnd)
{
    return other == KILN_IO && (kilnd == KILN_UNAVAILABLE || kilnd == KILN_BUSY);
}

static enum kiln_code connect_substitute(struct fallback *f, uint64_t deadline_ns,
                                         struct transport **ret_transport, struct kiln_err *err)
{
    struct kiln_err why = *err;
    struct substitute_use use = f->use;
    enum kiln_code rc = substitute.connect(&use, deadline_ns, ret_transport, err);
    pthread_mutex_lock(&f->mutex);
    f->use = use;
    snprintf(f->why, sizeof(f->why), "%s", why.text);
    daemon_check_postpone(&f->check);
    if (rc)
        f->refusal = KILN_OK; /* makes the next connection try kilnd again */
    pthread_mutex_unlock(&f->mutex);
    if (rc) {
        struct kiln_err second = *err;
        return kiln_fail(err, rc == KILN_TIMED_OUT || lasts_longer(rc, why.code) ? rc : why.code,
                         "%.240s; the fallback failed, too: %s", why.text, second.text);
    }
    atomic_store(&f->serves, true);
    return KILN_OK;
}

static bool is_first(const struct fallback *f) { return !f->off && substitute.is_first; }

static enum kiln_code connect_own_engine(struct fallback *f, uint64_t deadline_ns,
                                         struct transport **ret_transport, struct kiln_err *err)
{
    struct substitute_use use = f->use;
    enum kiln_code rc = substitute.connect(&use, deadline_ns, ret_transport, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&f->mutex);
    f->use = use;
    snprintf(f->why, sizeof(f->why), "the engine is built into this program");
    pthread_mutex_unlock(&f->mutex);
    atomic_store(&f->serves, true);
    return KILN_OK;
}

/* Returns whether to keep waiting for a kilnd whose last result was |rc|.  The caller holds the
 * mutex. */
static bool is_awaited(const struct fallback *f, enum kiln_code rc)
{
    uint64_t waited_ns = clock_monotonic_ns() - f->failing_ns, grace_ns = f->grace_ms * MS;
    bool may_return = waited_ns < RETURN_NS && waited_ns < grace_ns;
    switch (rc) {
    case KILN_UNAVAILABLE: return f->reached && may_return;
    case KILN_BUSY: return may_return;
    case KILN_TIMED_OUT: return waited_ns < grace_ns;
    default: return false;
    }
}

/* Connects to the host's kilnd.  On failure, sets |ret_falls| if the client must now use the
 * substitute. */
static enum kiln_code connect_to_kilnd(struct fallback *f, struct transport **ret_transport,
                                       bool *ret_falls, struct kiln_err *err)
{
    pthread_mutex_lock(&f->mutex);
    if (!f->failing_ns)
        f->failing_ns = clock_monotonic_ns();
    const char *path = f->options.socket_path;
    enum kiln_code rc = f->refusal ? kiln_fail(err, f->refusal, "%s", f->why)
                        : f->options.is_found
                            ? transport_socket_connect_found(path, ret_transport, err)
                            : transport_socket_connect(path, ret_transport, err);
    f->reached |= rc == KILN_OK;
    bool is_gone = rc == KILN_UNAVAILABLE || rc == KILN_DENIED || rc == KILN_BUSY;
    *ret_falls = f->refusal || (is_gone && !is_awaited(f, rc));
    pthread_mutex_unlock(&f->mutex);
    return rc;
}

enum kiln_code fallback_connect(struct fallback *f, uint64_t deadline_ns,
                                struct transport **ret_transport, struct kiln_err *err)
{
    if (is_first(f))
        return connect_own_engine(f, deadline_ns, ret_transport, err);
    bool falls;
    enum kiln_code rc = connect_to_kilnd(f, ret_transport, &falls, err);
    if (rc && falls && !f->off)
        return connect_substitute(f, deadline_ns, ret_transport, err);
    if (!rc)
        atomic_store(&f->serves, false);
    return rc;
}

static void notify_user(struct fallback *f)
{
    if (!is_first(f))
        print_notice(f->why, f->use.place);
}

bool fallback_on_handshake(struct fallback *f, enum kiln_code rc, const struct kiln_err *err)
{
    if (atomic_load(&f->serves)) {
        if (rc == KILN_UNAVAILABLE)
            f->use.failures++;
        if (rc == KILN_OK) {
            f->use.failures = 0;
            notify_user(f);
        }
        return false;
    }
    pthread_mutex_lock(&f->mutex);
    if (!rc)
        f->failing_ns = 0;
    bool is_refusal = rc && rc != KILN_NO_MEMORY && !f->off && !is_awaited(f, rc);
    if (is_refusal) {
        f->refusal = rc;
        snprintf(f->why, sizeof(f->why), "%s", err->text);
    }
    pthread_mutex_unlock(&f->mutex);
    return is_refusal;
}

bool fallback_may_leave(struct fallback *f)
{
    if (!atomic_load(&f->serves) || is_first(f))
        return false;
    pthread_mutex_lock(&f->mutex);
    bool is_back = daemon_check_poll(&f->check, &f->options);
    if (is_back) {
        f->refusal = KILN_OK;
        f->failing_ns = 0;
    }
    pthread_mutex_unlock(&f->mutex);
    return is_back;
}

bool fallback_serves(struct fallback *f, char *ret_reason, size_t size)
{
    if (!atomic_load(&f->serves))
        return false;
    pthread_mutex_lock(&f->mutex);
    snprintf(ret_reason, size, "%.250s; %.250s", f->why, f->use.place);
    pthread_mutex_unlock(&f->mutex);
    return true;
}
