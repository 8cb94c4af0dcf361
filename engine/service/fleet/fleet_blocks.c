/* SPDX-License-Identifier: MIT */
#include "engine/service/fleet/fleet_blocks.h"

#include "common/base/array.h"
#include "common/base/fs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define BLOCKS_FILE "fleet-blocks"
#define DAY_S 86400u
/* A database id, a part, two times, a digest, blanks and a newline. */
#define LINE_MAX_SIZE (DATABASE_ID_MAX + 10 + 20 + 20 + DIGEST_HEX_SIZE + 5)
#define TEXT_MAX (FLEET_BLOCKS_MAX * LINE_MAX_SIZE)

static enum kiln_code path_of(const char *state_directory, char path[PATH_MAX],
                              struct kiln_err *err)
{
    return snprintf(path, PATH_MAX, "%s/" BLOCKS_FILE, state_directory) < PATH_MAX
               ? KILN_OK
               : kiln_fail(err, KILN_INVALID, "the path of the state directory is too long");
}

static struct fleet_block *find_block(const struct fleet_blocks *blocks,
                                      const struct fleet_block *wanted)
{
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->list[i].part == wanted->part &&
            strcmp(blocks->list[i].database_id, wanted->database_id) == 0)
            return &blocks->list[i];
    return NULL;
}

static struct fleet_block *add_block(struct fleet_blocks *blocks, const struct fleet_block *block)
{
    if (blocks->count == FLEET_BLOCKS_MAX ||
        !ARRAY_RESERVE(blocks->list, blocks->count, blocks->capacity, 16))
        return NULL;
    blocks->list[blocks->count] = *block;
    return &blocks->list[blocks->count++];
}

static bool read_line(const char *line, struct fleet_block *ret_block)
{
    char hex[DIGEST_HEX_SIZE];
    unsigned long long time = 0, latest = 0;
    *ret_block = (struct fleet_block){ .is_current = false };
    if (sscanf(line, "%31s %u %llu %llu %64s", ret_block->database_id, &ret_block->part, &time,
               &latest, hex) != 5)
        return false;
    ret_block->time = time;
    ret_block->latest = latest;
    return digest_from_hex(hex, &ret_block->content);
}

static enum kiln_code read_lines(char *text, struct fleet_blocks *blocks, struct kiln_err *err)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct fleet_block block;
        if (read_line(line, &block) && !find_block(blocks, &block) && !add_block(blocks, &block))
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for the blocks of the fleet");
    }
    return KILN_OK;
}

enum kiln_code fleet_blocks_read(const char *state_directory, struct fleet_blocks *ret_blocks,
                                 struct kiln_err *err)
{
    char path[PATH_MAX];
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, TEXT_MAX);
    *ret_blocks = (struct fleet_blocks){ 0 };
    enum kiln_code rc = path_of(state_directory, path, err);
    if (!rc)
        rc = fs_read_file(path, TEXT_MAX, &content, err);
    if (rc)
        return rc == KILN_NOT_FOUND ? KILN_OK : rc;
    KILN_AUTO(mem) char *text = bytes_to_text(buffer_view(&content));
    return text ? read_lines(text, ret_blocks, err)
                : kiln_fail(err, KILN_NO_MEMORY, "no memory for the blocks of the fleet");
}

/* Returns 0 if |time| is more than a day in the future, because readers take such a time for an
 * older one than all others. */
static uint64_t time_for_readers(uint64_t time, uint64_t now)
{
    return time > now && time - now > DAY_S ? 0 : time;
}

/* Keeps the time of the same content as long as it is the block's latest time for readers. For
 * example, if the clock was years late when the block was exported, the block needs another time
 * once the clock is right, because readers then prefer the earlier content. */
static void set_time(struct fleet_block *noted, bool is_same, uint64_t now)
{
    uint64_t time = time_for_readers(noted->time, now);
    uint64_t last = time_for_readers(noted->latest, now);
    if (is_same && time > 0 && time >= last)
        return;
    last = last > time ? last : time;
    noted->time = now > last ? now : last + 1;
    noted->latest = noted->time > noted->latest ? noted->time : noted->latest;
}

enum kiln_code fleet_blocks_note(struct fleet_blocks *blocks, const struct fleet_block *block,
                                 uint64_t now, uint64_t *ret_time, struct kiln_err *err)
{
    struct fleet_block *noted = find_block(blocks, block);
    if (!noted && !(noted = add_block(blocks, block)))
        return kiln_fail(err, KILN_FULL, "the host has too many blocks of tuning records");
    set_time(noted, digest_equal(&noted->content, &block->content), now);
    noted->content = block->content;
    noted->is_current = true;
    *ret_time = noted->time;
    return KILN_OK;
}

enum kiln_code fleet_blocks_write(const struct fleet_blocks *blocks, const char *state_directory,
                                  struct kiln_err *err)
{
    char path[PATH_MAX], hex[DIGEST_HEX_SIZE], line[LINE_MAX_SIZE];
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, TEXT_MAX);
    enum kiln_code rc = path_of(state_directory, path, err);
    for (size_t i = 0; i < blocks->count; i++) {
        const struct fleet_block *block = &blocks->list[i];
        digest_to_hex(&block->content, hex);
        int size =
            snprintf(line, sizeof(line), "%s %u %llu %llu %s\n", block->database_id, block->part,
                     (unsigned long long)block->time, (unsigned long long)block->latest, hex);
        buffer_put(&text, line, (size_t)size);
    }
    if (!rc && text.failed)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the blocks of the fleet");
    return rc ? rc : fs_replace_file(path, buffer_view(&text), 0600, err);
}

void fleet_blocks_done(struct fleet_blocks *blocks)
{
    free(blocks->list);
    *blocks = (struct fleet_blocks){ 0 };
}
