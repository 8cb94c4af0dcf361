/* SPDX-License-Identifier: MIT */
#include "engine/service/fleet/fleet_upload.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/hex.h"
#include "common/base/jitter.h"
#include "common/base/url_text.h"
#include "engine/digest/sha256.h"
#include "engine/service/fleet/fleet_kernel.h"
#include "engine/service/fleet/fleet_parts.h"
#include "engine/service/kernels/store_tasks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MARK_NAME "fleet-uploaded"
#define MARK_MAX 128
#define TREE_SIZE 17
#define PUTS_MAX 8u
/* The largest number of kernels that one step looks at. */
#define ROWS_MAX 64u
/* Time after which a step makes no further record. A single record of 4 MiB takes longer. */
#define STEP_NS 20000000u
/* Maximum number of rows to count. Counting this many takes less than a millisecond. */
#define COUNTED_MAX 256u
/* Pause after a step that left no kernel to upload. Newer kernels then wait about this long, so
 * that their upload does not compete with the job that needed them. */
#define PAUSE_NS 2000000000u
/* Shortened by a random amount, so that hosts do not repeat their uploads at the same moment. */
#define FAILED_PAUSE_NS 60000000000u
/* Time after a call of fleet_upload_hurry during which uploads are not delayed. */
#define HURRY_NS 60000000000u

struct upload_put {
    struct fleet_access access;
    struct fleet_upload *upload;
};

/* A kernel of kernels.db. The id alone is not enough: SQLite gives the id of the newest row to
 * another kernel if that row was removed. */
struct upload_row {
    uint64_t id;
    struct digest key;
};

struct fleet_upload {
    struct engine *engine;
    struct fleet_signer signer;
    char path[PATH_MAX];         /* file of the mark; "": the mark is in memory only */
    char tree[TREE_SIZE];        /* hash of the tree's URL: the mark counts only for this tree */
    struct upload_row mark;      /* the last kernel that was uploaded or left out; id 0: none */
    bool is_mark_old;            /* the file of the mark names no tree */
    struct upload_row next_mark; /* the mark after the uploads that are in progress */
    uint64_t due_ns, hurry_until_ns;
    bool is_busy, has_more, has_failed;
    bool has_news;   /* since the step began, a kernel was stored that other hosts may wait for */
    uint64_t wait_s; /* how long the store wants to be left alone after this step; 0: not said */
    struct upload_put puts[PUTS_MAX];
    unsigned put_count, ended;
    uint64_t ends[FLEET_ENDS];
    /* Filled by a task. */
    struct task task;
    struct upload_row own[PUTS_MAX];
    struct digest damaged[PUTS_MAX];
    unsigned own_count, damaged_count, rows;
    struct upload_row last_row;
    bool is_mark_replaced; /* another kernel has the id of the mark */
    bool is_cut;           /* the step ended early because it took long */
    enum kiln_code rc;
    struct kiln_err err;
};

/* Writes 16 digits, a hash of the tree's URL without credentials: these may change. */
static void hash_tree(const char *url, char tree[TREE_SIZE])
{
    char shown[PATH_MAX];
    url_without_secrets(url, shown, sizeof(shown));
    struct digest digest = sha256_of(bytes_of_text(shown));
    hex_write(digest.bytes, (TREE_SIZE - 1) / 2, tree);
}

/* Also accepts a mark without a tree, as older versions wrote it. */
static bool parse_mark(struct fleet_upload *u, const char *text)
{
    unsigned long long id;
    char key[DIGEST_HEX_SIZE], of_tree[TREE_SIZE];
    int count = sscanf(text, "%20llu %64s %16s", &id, key, of_tree);
    if (count < 2 || !digest_from_hex(key, &u->mark.key) ||
        (count > 2 && strcmp(of_tree, u->tree) != 0))
        return false;
    u->mark.id = id;
    u->is_mark_old = count == 2;
    return true;
}

/* Reads the mark from its file. If the file is damaged, or if the mark is of another tree, the
 * uploads begin again with the first kernel. This is safe, because the tree does not replace files
 * that it has. */
static enum kiln_code read_mark(struct fleet_upload *u, struct kiln_err *err)
{
    char text[MARK_MAX + 1];
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, MARK_MAX);
    enum kiln_code rc = fs_read_file(u->path, MARK_MAX, &content, err);
    if (rc)
        return rc == KILN_NOT_FOUND || rc == KILN_FULL ? KILN_OK : rc;
    snprintf(text, sizeof(text), "%.*s", (int)content.size, (const char *)content.data);
    if (!parse_mark(u, text))
        u->mark = (struct upload_row){ 0 };
    return KILN_OK;
}

static enum kiln_code open_upload(struct fleet_upload *u,
                                  const struct fleet_upload_options *options, struct kiln_err *err)
{
    int size = options->state_directory
                   ? snprintf(u->path, sizeof(u->path), "%s/" MARK_NAME, options->state_directory)
                   : 0;
    if (size >= PATH_MAX)
        return kiln_fail(err, KILN_INVALID, "the path of the state directory is too long");
    hash_tree(options->tree ? options->tree : "", u->tree);
    enum kiln_code rc = fleet_signer_read(options->secret_key, &u->signer, err);
    return !rc && u->path[0] ? read_mark(u, err) : rc;
}

enum kiln_code fleet_upload_create(struct engine *e, const struct fleet_upload_options *options,
                                   struct fleet_upload **ret_upload, struct kiln_err *err)
{
    *ret_upload = NULL;
    if (!options->secret_key || !options->secret_key[0])
        return KILN_OK;
    struct fleet_upload *u = calloc(1, sizeof(*u));
    if (!u)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for uploads to the fleet");
    u->engine = e;
    enum kiln_code rc = open_upload(u, options, err);
    if (rc)
        fleet_upload_destroy(u);
    else
        *ret_upload = u;
    return rc;
}

void fleet_upload_destroy(struct fleet_upload *u)
{
    if (u)
        explicit_bzero(&u->signer, sizeof(u->signer));
    free(u);
}

uint64_t fleet_upload_ends(const struct fleet_upload *u, enum fleet_end end)
{
    return u ? u->ends[end] : 0;
}

uint64_t fleet_upload_mark(const struct fleet_upload *u) { return u ? u->mark.id : 0; }

void fleet_upload_hurry(struct fleet_upload *u)
{
    if (!u)
        return;
    u->hurry_until_ns = clock_monotonic_ns() + HURRY_NS;
    if (!u->has_failed)
        u->due_ns = 0;
}

static bool hurries(const struct fleet_upload *u)
{
    return clock_monotonic_ns() < u->hurry_until_ns;
}

void fleet_upload_note_stored(struct fleet_upload *u)
{
    if (!u || !hurries(u))
        return;
    u->has_news = true;
    fleet_upload_tick(u);
}

static bool is_shared(const struct kernel_record *r)
{
    return fleet_kernel_is_own(r) && r->raw_size <= FLEET_OBJECT_MAX;
}

static void note_row(void *context, const struct kernel_record *r)
{
    struct fleet_upload *u = context;
    const struct upload_row row = { r->id, r->key };
    if (row.id == u->mark.id) {
        u->is_mark_replaced = !digest_equal(&row.key, &u->mark.key);
        return;
    }
    if (u->own_count == PUTS_MAX)
        return;
    u->rows++;
    u->last_row = row;
    if (is_shared(r))
        u->own[u->own_count++] = row;
}

/* Lists the kernel of the mark and later ones. Begins again with the first kernel if another kernel
 * has the mark's id, or if all ids are lower: then kernels.db was replaced, or its newest kernels
 * were removed. This costs little, because the tree already has most of the files. */
static enum kiln_code list_rows(struct fleet_upload *u)
{
    uint64_t last = 0;
    const struct kernel_newer newer = {
        .after = u->mark.id ? u->mark.id - 1 : 0, .max = ROWS_MAX, .each = note_row, .context = u
    };
    u->rows = u->own_count = 0;
    u->last_row = u->mark;
    u->is_mark_replaced = false;
    enum kiln_code rc = kernel_store_each_newer(u->engine->store, &newer, &last, &u->err);
    if (!rc && (u->is_mark_replaced || (last > 0 && last < u->mark.id))) {
        u->last_row = (struct upload_row){ 0 };
        u->rows = u->own_count = 0;
    }
    return rc;
}

struct counting {
    uint64_t rows;
    struct fleet_waiting *waiting;
};

static void count_row(void *context, const struct kernel_record *r)
{
    struct counting *counting = context;
    counting->rows++;
    counting->waiting->count += is_shared(r);
}

enum kiln_code fleet_waiting_count(struct kernel_store *store, uint64_t mark,
                                   struct fleet_waiting *ret_waiting, struct kiln_err *err)
{
    uint64_t last = 0;
    struct counting counting = { .waiting = ret_waiting };
    const struct kernel_newer newer = {
        .after = mark, .max = COUNTED_MAX, .each = count_row, .context = &counting
    };
    *ret_waiting = (struct fleet_waiting){ 0 };
    enum kiln_code rc = kernel_store_each_newer(store, &newer, &last, err);
    ret_waiting->has_more = counting.rows == COUNTED_MAX;
    return rc;
}

static enum kiln_code name_put(struct upload_put *put, struct bytes bytes, struct kiln_err *err)
{
    struct fleet_record record;
    char shard_id[FLEET_SHARD_ID_SIZE];
    if (!fleet_record_read(bytes, &record))
        return kiln_fail(err, KILN_CORRUPT, "a record for the fleet is malformed");
    fleet_shard_id(&record.claim.shard, shard_id);
    fleet_name_loose(shard_id, &record.claim.key, put->access.name);
    return KILN_OK;
}

static enum kiln_code make_put(struct fleet_upload *u, struct buffer *record, struct kiln_err *err)
{
    struct upload_put *put = &u->puts[u->put_count];
    int fd = -1;
    *put = (struct upload_put){ .upload = u, .access = { .is_put = true, .fd = -1 } };
    fleet_record_sign(&u->signer, record->data);
    enum kiln_code rc = name_put(put, buffer_view(record), err);
    if (!rc)
        rc = fs_memfd("fleet-record", &fd, err);
    if (!rc)
        rc = fs_write_all(fd, buffer_view(record), err);
    if (rc) {
        fd_auto(&fd);
        return rc;
    }
    put->access.fd = fd;
    u->put_count++;
    return KILN_OK;
}

static enum kiln_code make_record(struct fleet_upload *u, struct codec *codec,
                                  const struct digest *key)
{
    BUFFER_AUTO struct buffer record;
    buffer_init(&record, FLEET_RECORD_MAX);
    struct fleet_recording recording = { .store = u->engine->store,
                                         .codec = codec,
                                         .records = &record };
    enum kiln_code rc = fleet_kernel_record(&recording, key, &u->err);
    if (recording.is_damaged)
        u->damaged[u->damaged_count++] = *key;
    return !rc && recording.is_written ? make_put(u, &record, &u->err) : rc;
}

/* Ends the step before the record |i|. The next step makes this record. */
static void cut_step(struct fleet_upload *u, unsigned i)
{
    u->last_row = u->own[i - 1];
    u->is_cut = true;
}

static void make_records(struct task *task)
{
    const uint64_t end_ns = clock_monotonic_ns() + STEP_NS;
    struct fleet_upload *u =
        (struct fleet_upload *)(void *)((char *)task - offsetof(struct fleet_upload, task));
    KILN_AUTO(codec) struct codec *codec = NULL;
    u->put_count = u->damaged_count = 0;
    u->is_cut = false;
    u->rc = list_rows(u);
    if (!u->rc)
        u->rc = codec_create(&codec, &u->err);
    for (unsigned i = 0; i < u->own_count && !u->rc && !u->is_cut; i++) {
        if (i > 0 && clock_monotonic_ns() >= end_ns)
            cut_step(u, i);
        else
            u->rc = make_record(u, codec, &u->own[i].key);
    }
}

static void close_puts(struct fleet_upload *u)
{
    for (unsigned i = 0; i < u->put_count; i++)
        close(u->puts[i].access.fd);
    u->put_count = 0;
}

static void end_uploads(struct fleet_upload *u, uint64_t pause_ns)
{
    u->is_busy = false;
    u->due_ns = clock_monotonic_ns() + pause_ns;
}

struct mark_write {
    struct task task;
    struct engine *engine;
    char path[PATH_MAX], text[MARK_MAX];
    enum kiln_code rc;
    struct kiln_err err;
};

static void write_mark(struct task *task)
{
    struct mark_write *w = (struct mark_write *)(void *)task;
    w->rc = fs_replace_file(w->path, bytes_of_text(w->text), 0600, &w->err);
}

static void end_mark(struct task *task)
{
    struct mark_write *w = (struct mark_write *)(void *)task;
    engine_task_ended(w->engine);
    w->engine->fleet->running--;
    if (w->rc)
        fleet_report_error(w->engine, w->err.text);
    free(w);
}

static void save_mark(struct fleet_upload *u)
{
    char hex[DIGEST_HEX_SIZE];
    struct mark_write *w = u->path[0] ? calloc(1, sizeof(*w)) : NULL;
    if (!w)
        return; /* the mark is not saved, so some uploads are repeated after a restart */
    w->engine = u->engine;
    w->task = (struct task){ .work = write_mark, .done = end_mark };
    snprintf(w->path, sizeof(w->path), "%s", u->path);
    digest_to_hex(&u->mark.key, hex);
    snprintf(w->text, sizeof(w->text), "%llu %s %s\n", (unsigned long long)u->mark.id, hex,
             u->tree);
    u->engine->fleet->running++;
    engine_run(u->engine, u->engine->own_uid, WORK_QUEUE_WRITE, &w->task);
}

static void advance_mark(struct fleet_upload *u)
{
    if (u->mark.id != u->next_mark.id || u->is_mark_old) {
        u->mark = u->next_mark;
        u->is_mark_old = false;
        save_mark(u);
    }
    u->has_more |= u->has_news;
    end_uploads(u, u->has_more || hurries(u) ? 0 : PAUSE_NS);
    if (u->has_more)
        fleet_upload_tick(u);
}

static void note_failure(struct fleet_upload *u, const struct fleet_access *access)
{
    char text[FLEET_FILE_NAME_MAX + 160];
    u->has_failed |= access->end != FLEET_END_TOO_LARGE;
    if (u->engine->draining && access->end == FLEET_END_STOPPED)
        return;
    snprintf(text, sizeof(text), "cannot add '%s' to the fleet's tree: %s", access->name,
             fleet_end_text(access->end));
    fleet_report_error(u->engine, text);
}

/* If the store says how long it wants to be left alone, the random time comes after that. */
static uint64_t pause_after_failure(const struct fleet_upload *u)
{
    uint64_t pause_ns = jitter_shorten(FAILED_PAUSE_NS);
    uint64_t busy_ns = fleet_busy_ns(u->wait_s);
    return busy_ns < pause_ns ? pause_ns : busy_ns + (FAILED_PAUSE_NS - pause_ns);
}

/* Called when a put has ended. If it was the step's last put, ends the step. If a put failed, the
 * whole step is repeated later. This is safe, because the tree does not replace files that it has.
 * A file that is too large for the store does not count as a failure. */
static void on_put(struct fleet_access *access)
{
    struct fleet_upload *u = ((struct upload_put *)(void *)access)->upload;
    u->engine->fleet->running--;
    u->ended++;
    u->ends[access->end]++;
    if (access->end == FLEET_END_BUSY && access->wait_s > u->wait_s)
        u->wait_s = access->wait_s;
    if (access->end != FLEET_END_DONE && access->end != FLEET_END_EXISTS)
        note_failure(u, access);
    if (u->ended < u->put_count)
        return;
    close_puts(u);
    if (u->has_failed)
        end_uploads(u, pause_after_failure(u));
    else
        advance_mark(u);
}

static void start_puts(struct fleet_upload *u)
{
    const unsigned count = u->put_count;
    u->ended = 0;
    u->has_failed = false;
    u->wait_s = 0;
    u->engine->fleet->running += count;
    for (unsigned i = 0; i < count; i++) {
        u->puts[i].access.done = on_put;
        u->engine->executor->ops->fleet_access(u->engine->executor, &u->puts[i].access);
    }
}

static void on_records(struct task *task)
{
    struct fleet_upload *u =
        (struct fleet_upload *)(void *)((char *)task - offsetof(struct fleet_upload, task));
    engine_task_ended(u->engine);
    u->engine->fleet->running--;
    for (unsigned i = 0; i < u->damaged_count; i++)
        quarantine_later(u->engine, &u->damaged[i]);
    if (u->rc) {
        fleet_report_error(u->engine, u->err.text);
        close_puts(u);
        end_uploads(u, jitter_shorten(FAILED_PAUSE_NS));
        return;
    }
    u->next_mark = u->last_row;
    u->has_more = u->is_cut || u->rows >= ROWS_MAX - 1 || u->own_count == PUTS_MAX;
    if (u->put_count > 0)
        start_puts(u);
    else
        advance_mark(u);
}

struct json *fleet_upload_describe(const struct fleet_upload *u,
                                   const struct fleet_waiting *waiting)
{
    char id[2 * FLEET_KEY_ID_SIZE + 1];
    if (!u)
        return NULL;
    struct json *json = json_object();
    hex_write(u->signer.key_id, FLEET_KEY_ID_SIZE, id);
    json_set_text(json, "builder", id);
    json_set_u64(json, "waiting", waiting->count);
    json_set_bool(json, "has_more", waiting->has_more);
    json_set_bool(json, "failing", u->has_failed);
    json_set(json, "results", fleet_describe_ends(u->ends));
    return json;
}

void fleet_upload_tick(struct fleet_upload *u)
{
    if (!u || u->is_busy || u->engine->draining || !fleet_tier_is_up(u->engine->fleet) ||
        clock_monotonic_ns() < u->due_ns)
        return;
    u->is_busy = true;
    u->has_news = false;
    u->err = KILN_ERR_INIT;
    u->task = (struct task){ .work = make_records, .done = on_records };
    u->engine->fleet->running++;
    engine_run(u->engine, u->engine->own_uid, WORK_QUEUE_READ, &u->task);
}
