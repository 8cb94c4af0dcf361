/* SPDX-License-Identifier: MIT */
/* The request fleet_tuning_export writes records of the fleet's tree from the tuning records of the
 * host. kilnctl then signs these records. */
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "engine/service/fleet/fleet_blocks.h"
#include "engine/service/fleet/fleet_tuning.h"
#include "engine/service/tuning/tuning_query.h"
#include "engine/tuning/tuning_record.h"
#include "engine/tuning/tuning_share.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GROUPS_MAX 256u
/* Room in a block for the host's largest record. */
#define BLOCK_MAX (FLEET_OBJECT_MAX + TUNING_CONTENT_MAX)
#define SERIES_TEXT (FLEET_SERIES_SIZE + 12)

static const struct admin_member share_members[] = { { 0 } };

struct group { /* the records of one file of MIOpen */
    char database_id[DATABASE_ID_MAX], backend[TUNING_BACKEND_TEXT];
    enum tuning_kind kind;
};

struct sharing {
    struct engine *engine; /* NULL: the request was refused, because another one runs */
    struct tuning_selection of_host;
    struct tuning_walk walk;
    bool is_gathering, is_gathered, has_too_many;
    struct group groups[GROUPS_MAX];
    size_t group_count, at;
    char series[FLEET_SERIES_SIZE];
    struct fleet_blocks blocks; /* owned; what the host exported before, and exports now */
    struct buffer last_key;     /* owned; of the group's record that was added last */
    struct buffer block;        /* owned */
    char block_series[SERIES_TEXT];
    unsigned part;        /* number of |block| among those of its device */
    struct buffer record; /* owned */
    size_t block_entries; /* entries in |block| */
    struct codec *codec;  /* owned */
    char path[PATH_MAX];  /* of the file; "": none yet */
    int fd;               /* owned; valid if |path| is set */
    uint64_t size, end_ns, records, entries, left_out;
    enum kiln_code rc;
    struct kiln_err *err;
};

static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    int order = strcmp(x->database_id, y->database_id);
    if (!order)
        order = (int)x->kind - (int)y->kind;
    return order ? order : strcmp(x->backend, y->backend);
}

static bool note_group(void *context, const struct tuning_held *held)
{
    struct sharing *s = context;
    struct group group = { .kind = held->place.kind };
    snprintf(group.database_id, sizeof(group.database_id), "%s", held->place.database_id);
    snprintf(group.backend, sizeof(group.backend), "%s", held->place.backend);
    for (size_t i = 0; i < s->group_count; i++)
        if (compare_groups(&s->groups[i], &group) == 0)
            return true;
    s->has_too_many = s->group_count == GROUPS_MAX;
    if (!s->has_too_many)
        s->groups[s->group_count++] = group;
    return !s->has_too_many;
}

static enum kiln_code gather_groups(struct sharing *s, const struct tuning *tuning)
{
    if (!s->is_gathering) {
        s->is_gathering = true;
        s->of_host = (struct tuning_selection){ .tier = TUNING_TIER_HOST };
        s->walk =
            (struct tuning_walk){ .selection = &s->of_host, .each = note_group, .context = s };
    }
    tuning_walk_step(tuning, &s->walk, s->end_ns);
    s->is_gathered = s->walk.is_over;
    if (s->has_too_many)
        return kiln_fail(s->err, KILN_FULL,
                         "the host has records of too many devices: 'kilnctl db rm --tier host "
                         "--db-id ID' removes those of one");
    if (s->is_gathered)
        qsort(s->groups, s->group_count, sizeof(s->groups[0]), compare_groups);
    return KILN_OK;
}

static enum kiln_code open_file(const struct tuning_query *query, struct sharing *s)
{
    tuning_query_path(query, s->path, sizeof(s->path));
    s->fd = open(s->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->fd >= 0)
        return KILN_OK;
    int error = errno;
    s->path[0] = '\0';
    return kiln_fail_errno(s->err, error, "cannot write tuning records");
}

static enum kiln_code append_record(struct tuning_query *query, struct sharing *s)
{
    s->size += s->record.size;
    enum kiln_code rc = tuning_query_reserve_space(query, s->size, s->err);
    if (!rc && !s->path[0])
        rc = open_file(query, s);
    return rc ? rc : fs_write_all(s->fd, buffer_view(&s->record), s->err);
}

static void begin_block(struct sharing *s, unsigned part)
{
    s->part = part;
    s->block_entries = 0;
    snprintf(s->block_series, sizeof(s->block_series), "%s-%u", s->series, part);
    tuning_share_begin(&s->block, s->block_series);
}

/* Writes the block as one record. */
static enum kiln_code write_block(struct tuning_query *query, struct sharing *s,
                                  struct fleet_block *block)
{
    struct fleet_tuning_claim claim = { .database_id = block->database_id,
                                        .series = s->block_series };
    if (s->block.failed)
        return kiln_fail(s->err, KILN_NO_MEMORY, "cannot share records: out of memory");
    block->content = sha256_of(buffer_view(&s->block));
    enum kiln_code rc = fleet_blocks_note(&s->blocks, block, clock_wall_s(), &claim.time, s->err);
    if (rc)
        return rc;
    tuning_share_set_time(&s->block, claim.time);
    buffer_clear(&s->record);
    rc = fleet_tuning_record(s->codec, &claim, buffer_view(&s->block), &s->record, s->err);
    return rc ? rc : append_record(query, s);
}

/* Writes the block, unless it is empty, and begins the next block. */
static enum kiln_code end_block(struct tuning_query *query, struct sharing *s)
{
    struct fleet_block block = { .part = s->part };
    if (s->block_entries == 0)
        return KILN_OK;
    snprintf(block.database_id, sizeof(block.database_id), "%s", s->groups[s->at].database_id);
    enum kiln_code rc = write_block(query, s, &block);
    s->entries += s->block_entries;
    begin_block(s, s->part + 1);
    return rc;
}

/* Writes empty blocks, which replace those that the host no longer has. */
static enum kiln_code empty_old_blocks(struct tuning_query *query, struct sharing *s)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; !rc && i < s->blocks.count; i++) {
        struct fleet_block block = s->blocks.list[i];
        if (block.is_current)
            continue;
        begin_block(s, block.part);
        rc = write_block(query, s, &block);
    }
    return rc;
}

struct adding {
    struct tuning_query *query;
    struct sharing *sharing;
};

/* Adds a record to the block. If the block would be too large, writes the block without it first.
 */
static enum kiln_code add_held(struct tuning_query *query, struct sharing *s,
                               const struct tuning_held *held)
{
    size_t before = s->block.size, entries = 0;
    enum kiln_code rc = tuning_share_add(&s->block, held, &entries, s->err);
    if (!rc && s->block.size > FLEET_OBJECT_MAX) {
        s->block.size = before;
        rc = end_block(query, s);
        if (!rc)
            rc = tuning_share_add(&s->block, held, &entries, s->err);
    }
    s->block_entries += entries;
    s->records += entries > 0;
    return rc;
}

static bool add_record(void *context, const struct tuning_held *held)
{
    struct adding *adding = context;
    struct sharing *s = adding->sharing;
    s->rc = add_held(adding->query, s, held);
    buffer_clear(&s->last_key);
    buffer_put(&s->last_key, held->place.key.data, held->place.key.size);
    return s->rc == KILN_OK && clock_monotonic_ns() < s->end_ns;
}

static bool is_same_device(const struct sharing *s)
{
    return s->at + 1 < s->group_count &&
           strcmp(s->groups[s->at].database_id, s->groups[s->at + 1].database_id) == 0;
}

/* Adds the group's records until the step's time is over. */
static enum kiln_code add_group(struct tuning_query *query, struct sharing *s,
                                struct tuning *tuning)
{
    const struct group *group = &s->groups[s->at];
    struct adding adding = { query, s };
    KILN_AUTO(mem) char *last = bytes_to_text(buffer_view(&s->last_key));
    if (!last)
        return kiln_fail(s->err, KILN_NO_MEMORY, "cannot share records: out of memory");
    const struct tuning_place after = { .tier = TUNING_TIER_HOST,
                                        .uid = TUNING_NOBODY,
                                        .kind = group->kind,
                                        .database_id = group->database_id,
                                        .backend = group->backend,
                                        .key = bytes_of(last, s->last_key.size) };
    enum kiln_code rc = tuning_each_after(tuning, &after, add_record, &adding, s->err);
    rc = rc ? rc : s->rc;
    if (rc || clock_monotonic_ns() >= s->end_ns)
        return rc;
    buffer_clear(&s->last_key);
    if (!is_same_device(s)) {
        rc = end_block(query, s);
        begin_block(s, 0);
    }
    s->at++;
    return rc;
}

static enum kiln_code begin_sharing(struct tuning_query *query, struct sharing *s)
{
    const char *directory = tuning_directory(query->base.engine);
    buffer_init(&s->last_key, TUNING_KEY_MAX);
    buffer_init(&s->block, BLOCK_MAX);
    buffer_init(&s->record, FLEET_RECORD_MAX);
    if (!directory)
        return kiln_fail(s->err, KILN_UNSUPPORTED, "this program stores no records on disk");
    enum kiln_code rc = codec_create(&s->codec, s->err);
    if (!rc)
        rc = fleet_tuning_series(directory, s->series, s->err);
    if (!rc)
        begin_block(s, 0);
    return rc ? rc : fleet_blocks_read(directory, &s->blocks, s->err);
}

static enum kiln_code end_sharing(struct tuning_query *query, struct sharing *s)
{
    uint64_t bytes = 0;
    struct json *answer = query->base.answer;
    enum kiln_code rc = empty_old_blocks(query, s);
    if (!rc && s->blocks.count > 0)
        rc = fleet_blocks_write(&s->blocks, tuning_directory(query->base.engine), s->err);
    json_set_u64(answer, "records", s->records);
    json_set_u64(answer, "entries", s->entries);
    return rc || !s->path[0] ? rc : tuning_query_send_file(query, s->path, &bytes, s->err);
}

static enum kiln_code work_sharing(struct tuning_query *query, struct tuning *tuning,
                                   struct kiln_err *err)
{
    struct sharing *s = query->state;
    enum kiln_code rc = KILN_OK;
    s->err = err;
    s->end_ns = clock_monotonic_ns() + TUNING_STEP_NS;
    if (!s->codec)
        rc = begin_sharing(query, s);
    if (!rc && !s->is_gathered)
        rc = gather_groups(s, tuning);
    while (!rc && s->is_gathered && s->at < s->group_count && clock_monotonic_ns() < s->end_ns)
        rc = add_group(query, s, tuning);
    query->change.more = !rc && (!s->is_gathered || s->at < s->group_count);
    return rc || query->change.more ? rc : end_sharing(query, s);
}

/* Allows only one export at a time: each reads the file fleet-blocks when it begins, and replaces
 * it when it ends. With two of them, the tree could lack records until they change again. */
static enum kiln_code check_sharing(struct tuning_query *query, struct kiln_err *err)
{
    struct sharing *s = query->state;
    struct engine *e = query->base.engine;
    if (e->shares_tuning)
        return kiln_fail(err, KILN_BUSY,
                         "another 'kilnctl fleet push' exports the tuning records of this host: "
                         "try again");
    e->shares_tuning = true;
    s->engine = e;
    return KILN_OK;
}

static void sharing_done(void *state)
{
    struct sharing *s = state;
    if (s->engine)
        s->engine->shares_tuning = false;
    if (s->path[0]) {
        unlink(s->path);
        fd_close(&s->fd);
    }
    codec_destroy(s->codec);
    fleet_blocks_done(&s->blocks);
    buffer_done(&s->last_key);
    buffer_done(&s->block);
    buffer_done(&s->record);
}

static const struct tuning_query_kind share_kind = {
    .members = share_members,
    .check = check_sharing,
    .work = work_sharing,
    .state_done = sharing_done,
    .state_size = sizeof(struct sharing),
};

TUNING_QUERY_HANDLER(fleet_tuning_export, share_kind)
