/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/contents.h"

#include "common/base/fs.h"
#include "common/base/hash_table.h"
#include "engine/digest/sha256.h"
#include "libclient/rtc/locks.h"
#include "libclient/rtc/words.h"

#include <stdlib.h>
#include <string.h>

#define FILE_MAX (64u << 20)
#define KNOWN_MAX 16384u

struct state { /* identifies a state of a file; has no padding, so memcmp can compare it */
    uint64_t device, inode, size;
    int64_t times[4];
};

struct known {
    struct hash_link link;
    struct state state;
    struct contents contents;
};

static struct {
    struct hash_table files;
} known;

static struct state state_of(const struct stat *seen)
{
    return (struct state){ .device = seen->st_dev,
                           .inode = seen->st_ino,
                           .size = (uint64_t)seen->st_size,
                           .times = { seen->st_mtim.tv_sec, seen->st_mtim.tv_nsec,
                                      seen->st_ctim.tv_sec, seen->st_ctim.tv_nsec } };
}

static uint64_t hash_of(const struct state *state)
{
    return (state->inode ^ (uint64_t)state->times[3]) * 0x9e3779b97f4a7c15u;
}

static bool find_known(const struct state *state, struct contents *ret_contents)
{
    struct contents *found = NULL;
    rtc_lock(RTC_LOCK_CONTENTS);
    HASH_EACH (&known.files, hash_of(state), struct known, link, one)
        if (memcmp(&one->state, state, sizeof(*state)) == 0)
            found = &one->contents;
    if (found)
        *ret_contents = *found;
    rtc_unlock(RTC_LOCK_CONTENTS);
    return found != NULL;
}

static void add_known(const struct state *state, const struct contents *contents)
{
    struct known *one = malloc(sizeof(*one));
    if (!one)
        return;
    *one = (struct known){ .state = *state, .contents = *contents };
    rtc_lock(RTC_LOCK_CONTENTS);
    bool has_room = known.files.count < KNOWN_MAX;
    if (has_room)
        hash_table_add(&known.files, &one->link, hash_of(state));
    rtc_unlock(RTC_LOCK_CONTENTS);
    if (!has_room)
        free(one);
}

bool contents_read(const char *path, struct buffer *ret_content)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    buffer_init(ret_content, FILE_MAX);
    return fs_read_file(path, FILE_MAX, ret_content, &ignored) == KILN_OK && !ret_content->failed;
}

static bool examine(const char *path, struct contents *ret_contents)
{
    BUFFER_AUTO struct buffer content;
    if (!contents_read(path, &content))
        return false;
    *ret_contents = (struct contents){ .digest = sha256_of(buffer_view(&content)),
                                       .has_time = words_have_time(buffer_view(&content)),
                                       .has_name = words_have_name(buffer_view(&content)) };
    return true;
}

bool contents_of(const char *path, const struct stat *seen, struct contents *ret_contents)
{
    const struct state state = state_of(seen);
    if (find_known(&state, ret_contents))
        return true;
    if (!examine(path, ret_contents))
        return false;
    add_known(&state, ret_contents);
    return true;
}
