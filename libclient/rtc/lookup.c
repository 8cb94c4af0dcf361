/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/lookup.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "libclient/client.h"
#include "libclient/kernels/compile.h"
#include "libclient/rtc/key.h"
#include "libclient/rtc/locks.h"
#include "libclient/rtc/manifest.h"
#include "libclient/rtc/settings.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* kilnd may answer this much later than the end of the time for which it was asked to wait. */
#define LATE_MS 2000u
#define STORE_MS 30000u
/* How long, after a wait without a result, no compile of this process waits again.  Otherwise every
 * compile would wait while the process that compiles is stopped, or while kilnd's compilers are
 * busy. */
#define NO_WAIT_NS 600000000000u
#define MS 1000000ull
/* How long this process sends no request after kilnd did not answer one. */
#define PAUSE_NS 10000000000u
/* maximum number of manifests under one key */
#define MANIFESTS_MAX 8u
/* Maximum number of times that a look-up reads the list of manifests.  Other processes may change
 * the list during the look-up. */
#define ROUNDS 4

#define LIST_MAGIC 0x314d544bu /* "KTM1" */

/* ---- the connection ---- */

static struct {
    struct kiln_client *client;
    pid_t pid;
    _Atomic uint64_t paused_until_ns, no_wait_until_ns;
    atomic_bool has_answered; /* kilnd has answered this process at least once */
    atomic_bool has_retried;  /* lookup_retry was called */
} connection;

/* Returns whether this process has already tried to open its client.  |ret_client| is NULL if this
 * process has not tried, or if opening failed. */
static bool find_client(struct kiln_client **ret_client)
{
    rtc_lock(RTC_LOCK_CONNECTION);
    bool is_own = connection.pid == getpid();
    *ret_client = is_own ? connection.client : NULL;
    rtc_unlock(RTC_LOCK_CONNECTION);
    return is_own;
}

/* Makes |opened| the client of this process, or closes |opened| if another thread was faster.
 * Returns the client of this process. */
static struct kiln_client *keep_client(struct kiln_client *opened)
{
    rtc_lock(RTC_LOCK_CONNECTION);
    bool is_first = connection.pid != getpid();
    if (is_first) {
        connection.client = opened;
        connection.pid = getpid();
    }
    struct kiln_client *client = connection.client;
    rtc_unlock(RTC_LOCK_CONNECTION);
    if (!is_first)
        kiln_client_close(opened);
    return client;
}

/* Holds no lock while it opens the client, because opening registers a fork handler.  In glibc
 * before 2.36, the registration waits while another thread forks, and fork() waits for this
 * library's locks. */
struct kiln_client *lookup_client(void)
{
    const struct kiln_client_options options = { .size = sizeof(options),
                                                 .name = "libkiln-rtc",
                                                 .cache_entries = -1 };
    struct kiln_client *client = NULL;
    if (clock_monotonic_ns() < connection.paused_until_ns)
        return NULL;
    if (find_client(&client))
        return client;
    if (kiln_client_open(&options, &client, NULL))
        client = NULL;
    return keep_client(client);
}

bool lookup_may_wait(void) { return clock_monotonic_ns() >= connection.no_wait_until_ns; }

void lookup_waited_in_vain(void)
{
    connection.no_wait_until_ns = clock_monotonic_ns() + NO_WAIT_NS;
}

/* Begins a pause, unless a pause is running: a request that was not sent because of the pause must
 * not prolong it. */
static void pause_requests(void)
{
    uint64_t now = clock_monotonic_ns();
    if (now >= connection.paused_until_ns)
        connection.paused_until_ns = now + PAUSE_NS;
}

const char *lookup_reason(enum kiln_code rc)
{
    if (rc == KILN_BUSY)
        return "another process still compiles it, or kilnd is at a limit";
    if (rc == KILN_DENIED)
        return "kilnd refuses this user";
    pause_requests();
    if (rc == KILN_TIMED_OUT)
        return "kilnd did not answer in time";
    return rc == KILN_UNSUPPORTED || rc == KILN_INVALID ? "kilnd is older than libkiln-rtc"
                                                        : "no kilnd can be reached";
}

static enum kiln_code ask_once(struct kiln_client *client, const struct compile_question *asked,
                               uint32_t wait_ms, struct compile_found *ret_found)
{
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    const uint32_t late_ms = wait_ms ? LATE_MS : 0;
    struct compile_question question = *asked;
    question.wait_ms = wait_ms;
    question.deadline_ns = clock_monotonic_ns() + (wait_ms + late_ms + settings_patience_ms()) * MS;
    enum kiln_code rc = compile_begin(client, &question, ret_found, &failure);
    if (rc != KILN_UNAVAILABLE && rc != KILN_TIMED_OUT)
        connection.has_answered = true;
    return rc;
}

static enum kiln_code wait_for(struct kiln_client *client, const struct compile_question *question,
                               struct compile_found *ret_found)
{
    const uint32_t wait_ms = settings_wait_ms();
    const uint64_t until_ns = clock_monotonic_ns() + wait_ms * MS;
    enum kiln_code rc = ask_once(client, question, wait_ms, ret_found);
    if (rc && clock_monotonic_ns() >= until_ns)
        lookup_waited_in_vain();
    return rc;
}

/* |shared| is the key of a result that kilnd compiled itself, or NULL. */
static enum kiln_code ask(const struct lookup *l, const struct digest *key,
                          const struct digest *shared, struct compile_found *ret_found)
{
    const struct compile_question question = { .key = key, .program = shared };
    struct kiln_client *client = lookup_client();
    *ret_found = (struct compile_found){ .result = NULL };
    if (!client)
        return KILN_UNAVAILABLE;
    enum kiln_code rc = ask_once(client, &question, 0, ret_found);
    return rc == KILN_BUSY && !l->is_late && lookup_may_wait()
               ? wait_for(client, &question, ret_found)
               : rc;
}

/* ---- the list of manifests ---- */

static struct bytes content_of(const struct kiln_kernel *kernel)
{
    return bytes_of(kiln_kernel_data(kernel), kiln_kernel_size(kernel));
}

/* Begins to read a list of manifests.  |ret_further| receives a part of the program's name (enum
 * key_name_part): if no manifest fits, the look-up continues with the list under the key that
 * includes this part.  Returns false if |kernel| is not a list. */
static bool begin_list(const struct kiln_kernel *kernel, struct reader *ret_reader,
                       uint32_t *ret_further)
{
    *ret_reader = reader_of(content_of(kernel));
    uint32_t magic = reader_u32(ret_reader);
    *ret_further = reader_u32(ret_reader);
    return !ret_reader->failed && magic == LIST_MAGIC && *ret_further <= KEY_WHOLE_NAME;
}

static bool result_key(const struct digest *key, struct bytes manifest, struct digest *ret_key)
{
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of_text("result"));
    sha256_put(&s, bytes_of(key->bytes, DIGEST_SIZE));
    bool is_fine = manifest_digest(manifest, &s);
    *ret_key = sha256_end(&s);
    return is_fine;
}

/* Returns the name in whose directory the compiler searches for headers: the program's name, or ""
 * for hiprtc and comgr, which compile a temporary file. */
static const char *place_of(const struct rtc_program *p)
{
    return p->library->kind == RTC_NVRTC ? key_name(p) : "";
}

/* Finds the manifest that describes the current state of the files, and makes the key of its
 * result.  Returns false if no manifest describes this state. */
static bool find_manifest(struct reader *list, const struct digest *key, const char *name,
                          struct digest *ret_key)
{
    while (reader_left(list)) {
        struct bytes manifest = reader_sized(list);
        if (list->failed)
            return false;
        if (manifest_is_current(manifest, name))
            return result_key(key, manifest, ret_key);
    }
    return false;
}

/* Returns the key under which to ask for the right to compile.  All processes that read the same
 * list and found no fitting manifest get the same key, so only one of them compiles. */
static struct digest successor_key(const struct lookup *l)
{
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of_text("after"));
    sha256_put(&s, bytes_of(l->key.bytes, DIGEST_SIZE));
    sha256_put_sized(&s, content_of(l->manifests));
    return sha256_end(&s);
}

/* ---- looking up ---- */

static void drop_manifests(struct lookup *l)
{
    kiln_kernel_unref(l->manifests);
    l->manifests = NULL;
}

static enum lookup_outcome outcome_of(struct lookup *l, enum kiln_code rc, const struct digest *key)
{
    l->lease = *key;
    l->has_right = rc == KILN_NOT_FOUND;
    if (l->has_right)
        return LOOKUP_COMPILE;
    l->reason = lookup_reason(rc);
    return LOOKUP_NONE;
}

static enum lookup_outcome take(struct lookup *l, const struct digest *key,
                                struct kiln_kernel *result)
{
    l->stored = result;
    l->result = *key;
    l->saved_ns = kiln_kernel_compile_ns(result);
    return LOOKUP_FOUND;
}

static enum lookup_outcome take_result(struct lookup *l, const struct digest *key)
{
    struct compile_found found;
    enum kiln_code rc = ask(l, key, NULL, &found);
    return rc ? outcome_of(l, rc, key) : take(l, key, found.result);
}

/* Asks for the right to compile, because no manifest fits.  Returns true if another process had
 * this right and has ended its compile, so that the list may have changed. */
static bool compete(struct lookup *l, enum lookup_outcome *ret_outcome)
{
    struct digest key = successor_key(l);
    struct compile_found found;
    enum kiln_code rc = ask(l, &key, l->shared, &found);
    if (!rc && !found.is_program) {
        kiln_kernel_unref(found.result);
        return true;
    }
    *ret_outcome = rc ? outcome_of(l, rc, &key) : take(l, l->shared, found.result);
    return false;
}

static bool look_into_list(struct lookup *l, const struct rtc_program *p, enum lookup_outcome *ret)
{
    struct reader list;
    uint32_t further;
    struct digest key;
    if (!begin_list(l->manifests, &list, &further)) {
        l->reason = "the stored list of files is damaged";
        return false;
    }
    if (find_manifest(&list, &l->key, place_of(p), &key)) {
        *ret = take_result(l, &key);
        return false;
    }
    if (further <= (uint32_t)l->part)
        return compete(l, ret);
    l->part = (enum key_name_part)further;
    l->key = key_of_program(p, l->part);
    return true;
}

/* Makes one step of a look-up.  Returns true if another step must follow, because |l| has another
 * key now, or because the list in kilnd may have changed. */
static bool look_once(struct lookup *l, const struct rtc_program *p, enum lookup_outcome *ret)
{
    struct compile_found found;
    drop_manifests(l);
    enum kiln_code rc = ask(l, &l->key, l->shared, &found);
    if (rc || found.is_program) {
        *ret = rc ? outcome_of(l, rc, &l->key) : take(l, l->shared, found.result);
        return false;
    }
    l->manifests = found.result;
    return look_into_list(l, p, ret);
}

static enum lookup_outcome look_up(struct lookup *l, const struct rtc_program *p)
{
    enum lookup_outcome outcome = LOOKUP_NONE;
    l->key = key_of_program(p, KEY_NO_NAME);
    l->part = KEY_NO_NAME;
    l->reason = "its files change all the time";
    for (unsigned round = 0; round < ROUNDS && look_once(l, p, &outcome); round++)
        ;
    return outcome;
}

enum lookup_outcome lookup_begin(struct lookup *l, const struct rtc_program *p,
                                 const struct digest *shared)
{
    *l = (struct lookup){ .shared = shared };
    enum lookup_outcome outcome = look_up(l, p);
    l->is_late = outcome == LOOKUP_NONE && !connection.has_answered && !connection.has_retried;
    return outcome;
}

/* Ends the pause once in a process, so a kilnd that never answers delays the process only once. */
static bool may_retry(void)
{
    if (connection.has_answered)
        return true;
    if (atomic_exchange(&connection.has_retried, true))
        return false;
    connection.paused_until_ns = 0;
    return true;
}

bool lookup_retry(struct lookup *l, const struct rtc_program *p)
{
    if (!may_retry())
        return false;
    enum lookup_outcome outcome = look_up(l, p);
    if (outcome == LOOKUP_FOUND) {
        kiln_kernel_unref(l->stored);
        l->reason = "another process stored the same result meanwhile";
    }
    return outcome == LOOKUP_COMPILE;
}

void lookup_done(struct lookup *l) { drop_manifests(l); }

/* ---- publishing ---- */

static int make_file(struct bytes content)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    int fd = memfd_create("kiln-rtc", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || fs_write_all(fd, content, &ignored) == KILN_OK)
        return fd;
    close(fd);
    return -1;
}

struct publication {
    const struct rtc_program *program;
    char name[200], options[1000];
    uint64_t compile_ns;
};

static bool put(const struct publication *x, enum compile_part part, const struct digest *key,
                struct bytes content)
{
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    struct kiln_client *client = lookup_client();
    int file = make_file(content);
    const struct compile_result result = { .key = key,
                                           .part = part,
                                           .file = file,
                                           .compile_ns = x->compile_ns,
                                           .target = key_target(x->program),
                                           .toolchain = x->program->library->name,
                                           .program = x->name,
                                           .options = x->options };
    enum kiln_code rc = KILN_UNAVAILABLE;
    if (client && file >= 0)
        rc = compile_end(client, &result, clock_monotonic_ns() + STORE_MS * MS, &failure);
    if (rc == KILN_TIMED_OUT || rc == KILN_INVALID || rc == KILN_UNSUPPORTED)
        pause_requests();
    if (file >= 0)
        close(file);
    return rc == KILN_OK;
}

static void put_text(char *to, size_t size, const char *text)
{
    size_t at = strlen(to);
    for (; *text && at + 1 < size; text++)
        to[at++] = *text >= ' ' && *text <= '~' ? *text : '?';
    to[at] = '\0';
}

static void describe(struct publication *x)
{
    const struct rtc_program *p = x->program;
    const char *slash = p->name ? strrchr(p->name, '/') : NULL;
    put_text(x->name, sizeof(x->name),
             slash                 ? slash + 1
             : p->name && *p->name ? p->name
                                   : "default_program");
    for (size_t i = 0; i < p->option_count; i++) {
        put_text(x->options, sizeof(x->options), i ? " " : "");
        put_text(x->options, sizeof(x->options), p->options[i]);
    }
}

/* Writes the newest manifest first: |manifest|, then the manifests of the list |old|.  |manifest|
 * and |old| may be NULL. */
static void write_list(struct buffer *to, enum key_name_part further, const struct bytes *manifest,
                       const struct kiln_kernel *old)
{
    struct reader r = reader_of(bytes_of(NULL, 0));
    uint32_t before = KEY_NO_NAME;
    bool has_old = old && begin_list(old, &r, &before);
    buffer_put_u32(to, LIST_MAGIC);
    buffer_put_u32(to, has_old && before > (uint32_t)further ? before : (uint32_t)further);
    if (manifest)
        buffer_put_sized(to, *manifest);
    for (unsigned count = manifest != NULL; has_old && count < MANIFESTS_MAX && reader_left(&r);
         count++)
        buffer_put_sized(to, reader_sized(&r));
}

/* Stores the list of manifests under |l|'s key.  Adds |manifest|, unless it is NULL, and records
 * |further| (begin_list). */
static bool put_list(const struct publication *x, const struct lookup *l,
                     enum key_name_part further, const struct bytes *manifest)
{
    BUFFER_AUTO struct buffer list;
    buffer_init(&list, 16u << 20);
    write_list(&list, further, manifest, l->manifests);
    return !list.failed && put(x, COMPILE_PART_FILES, &l->key, buffer_view(&list));
}

/* Ends the compile that was begun under the key |lease|, by storing a marker under this key.  Does
 * nothing if the list or the result was just stored under this key, because this has already ended
 * the compile. */
static void end_lease(const struct publication *x, struct lookup *l, const struct digest *stored)
{
    if (!digest_equal(&l->lease, &l->key) && !digest_equal(&l->lease, stored) &&
        !put(x, COMPILE_PART_MARK, &l->lease, bytes_of_text("done")))
        lookup_give_back(l);
}

static enum key_name_part part_of(const struct rtc_program *p, struct bytes files,
                                  struct bytes result)
{
    const char *place = place_of(p);
    if (*place && (manifest_uses_directory(files, place) || key_options_have_directory(p)))
        return KEY_WHOLE_NAME;
    return key_name_part_of(p, result);
}

static void note(const struct rtc_program *p, const struct digest *key, enum trace_tier tier,
                 uint64_t compile_ns)
{
    char hex[DIGEST_HEX_SIZE];
    const struct kiln_client *client = lookup_client();
    const struct trace_kernel note = { .wanted_ns = p->wanted_ns,
                                       .target = bytes_of_text(key_target(p)),
                                       .key = hex,
                                       .tier = tier,
                                       .compile_ns = compile_ns,
                                       .is_own_library = true };
    if (!client || !client->trace)
        return;
    digest_to_hex(key, hex);
    trace_kernel(client->trace, &note);
}

void lookup_note(const struct rtc_program *p, const struct digest *key,
                 const struct kiln_kernel *kernel)
{
    note(p, key, trace_tier_of(kernel), kiln_kernel_compile_ns(kernel));
}

static bool put_result(const struct publication *x, const struct lookup *l, struct bytes files,
                       struct bytes result, struct digest *ret_key)
{
    BUFFER_AUTO struct buffer kept;
    buffer_init(&kept, 4u << 20);
    if (l->part != KEY_WHOLE_NAME) {
        if (!manifest_for_any_name(files, place_of(x->program), &kept))
            return false;
        files = buffer_view(&kept);
    }
    if (!result_key(&l->key, files, ret_key) || !put(x, COMPILE_PART_RESULT, ret_key, result))
        return false;
    note(x->program, ret_key, TRACE_OWN, x->compile_ns);
    return put_list(x, l, KEY_NO_NAME, &files);
}

/* Stores a result under a key with a larger part of the program's name than |l| has, and records
 * this part in the list of |l|. */
static bool put_result_elsewhere(const struct publication *x, const struct lookup *l,
                                 enum key_name_part part, struct bytes files, struct bytes result)
{
    struct digest stored;
    const struct lookup other = { .key = key_of_program(x->program, part), .part = part };
    return put_result(x, &other, files, result, &stored) && put_list(x, l, part, NULL);
}

bool lookup_publish(struct lookup *l, const struct rtc_program *p, struct bytes files,
                    struct bytes result, uint64_t compile_ns)
{
    struct publication x = { .program = p, .compile_ns = compile_ns };
    struct digest stored = l->key;
    enum key_name_part part = part_of(p, files, result);
    describe(&x);
    if (!(part > l->part ? put_result_elsewhere(&x, l, part, files, result)
                         : put_result(&x, l, files, result, &stored)))
        return false;
    end_lease(&x, l, &stored);
    return true;
}

/* Returns the connection on which this process got the right to compile, or NULL if that connection
 * is gone.  Unlike lookup_client, returns the connection also during a pause (pause_requests). */
static struct kiln_client *client_with_right(void)
{
    struct kiln_client *client;
    (void)find_client(&client);
    return client;
}

void lookup_give_back(struct lookup *l)
{
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    struct kiln_client *client = l->has_right ? client_with_right() : NULL;
    const struct compile_result nothing = {
        .key = &l->lease, .file = -1, .target = "", .toolchain = "", .program = "", .options = ""
    };
    /* without a connection, this process has already lost the right to compile */
    if (client &&
        compile_end(client, &nothing, clock_monotonic_ns() + settings_patience_ms() * MS, &failure))
        multiplexer_disconnect(client->multiplexer);
}
