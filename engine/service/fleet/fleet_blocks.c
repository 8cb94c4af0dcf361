/* SPDX-License-Identifier: MIT */
#include "engine/service/fleet/fleet_blocks.h"

#include "common/base/array.h"
#include "common/base/fs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define BLOCKS_FILE "fleet-blocks"
#define DAY_S 86400u
/* A database id, a part, a time, a digest, blanks and a newline. */
#define LINE_MAX_SIZE (DATABASE_ID_MAX + 10 + 20 + DIGEST_HEX_SIZE + 4)
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
    unsigned long long time = 0;
    *ret_block = (struct fleet_block){ .is_current = false };
    if (sscanf(line, "%31s %u %llu %64s", ret_block->database_id, &ret_block->part, &time, hex) !=
        4)
        return false;
    ret_block->time = time;
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

enum kiln_code fleet_blocks_note(struct fleet_blocks *blocks, const struct fleet_block *block,
                                 uint64_t now, uint64_t *ret_time, struct kiln_err *err)
{
    struct fleet_block *noted = find_block(blocks, block);
    if (!noted && !(noted = add_block(blocks, block)))
        return kiln_fail(err, KILN_FULL, "the host has too many blocks of tuning records");
    /* Readers take a time of more than a day in the future for an older one than all others. */
    bool is_early = noted->time > now && noted->time - now >= DAY_S;
    bool is_same = digest_equal(&noted->content, &block->content);
    if (is_early || noted->time == 0 || (!is_same && noted->time < now))
        noted->time = now;
    else if (!is_same)
        noted->time++;
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
        int size = snprintf(line, sizeof(line), "%s %u %llu %s\n", block->database_id, block->part,
                            (unsigned long long)block->time, hex);
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
