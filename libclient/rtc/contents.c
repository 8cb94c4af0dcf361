/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/contents.h"

#include "common/base/fs.h"
#include "common/base/hash_table.h"
#include "engine/digest/sha256.h"
#include "libclient/rtc/locks.h"
#include "libclient/rtc/names.h"
#include "libclient/rtc/words.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILE_MAX (64u << 20)
#define KNOWN_MAX 16384u

struct known {
    struct hash_link link;
    struct file_state state;
    struct contents contents;
};

static struct {
    struct hash_table files;
} known;

static uint64_t nanoseconds(struct timespec t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct file_state file_state_of(const struct stat *seen)
{
    return (struct file_state){ .device = seen->st_dev,
                                .inode = seen->st_ino,
                                .size = (uint64_t)seen->st_size,
                                .mtime_ns = nanoseconds(seen->st_mtim),
                                .ctime_ns = nanoseconds(seen->st_ctim) };
}

bool file_state_equal(const struct file_state *a, const struct file_state *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

bool file_state_is_since(const struct file_state *state, uint64_t now_ns)
{
    return state->mtime_ns >= now_ns || state->ctime_ns >= now_ns;
}

uint64_t file_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return nanoseconds(now);
}

static uint64_t hash_of(const struct file_state *state)
{
    return (state->inode ^ (uint64_t)state->ctime_ns) * 0x9e3779b97f4a7c15u;
}

static bool find_known(const struct file_state *state, struct contents *ret_contents)
{
    struct contents *found = NULL;
    rtc_lock(RTC_LOCK_CONTENTS);
    HASH_EACH (&known.files, hash_of(state), struct known, link, one)
        if (file_state_equal(&one->state, state))
            found = &one->contents;
    if (found)
        *ret_contents = *found;
    rtc_unlock(RTC_LOCK_CONTENTS);
    return found != NULL;
}

/* Returns false if the table is full. */
static bool add_known(const struct file_state *state, const struct contents *contents)
{
    struct known *one = malloc(sizeof(*one));
    if (!one)
        return false;
    *one = (struct known){ .state = *state, .contents = *contents };
    rtc_lock(RTC_LOCK_CONTENTS);
    bool has_room = known.files.count < KNOWN_MAX;
    if (has_room)
        hash_table_add(&known.files, &one->link, hash_of(state));
    rtc_unlock(RTC_LOCK_CONTENTS);
    if (!has_room)
        free(one);
    return has_room;
}

/* |ret_names| receives what the caller frees, or NULL. */
static bool examine(const char *path, struct contents *ret_contents, struct names_text **ret_names)
{
    BUFFER_AUTO struct buffer content;
    struct kiln_err ignored = KILN_ERR_INIT;
    buffer_init(&content, FILE_MAX);
    if (fs_read_file(path, FILE_MAX, &content, &ignored) != KILN_OK || content.failed)
        return false;
    *ret_names = names_read(buffer_view(&content));
    *ret_contents = (struct contents){ .digest = sha256_of(buffer_view(&content)),
                                       .has_time = words_have_time(buffer_view(&content)),
                                       .names = *ret_names };
    return true;
}

static bool has_state(const char *path, const struct file_state *state)
{
    struct stat seen;
    if (stat(path, &seen))
        return false;
    const struct file_state now = file_state_of(&seen);
    return file_state_equal(&now, state);
}

bool contents_of(const char *path, const struct file_state *state, struct contents *ret_contents)
{
    struct names_text *names;
    const uint64_t now_ns = file_clock_ns();
    if (find_known(state, ret_contents))
        return true;
    if (!examine(path, ret_contents, &names))
        return false;
    /* The name may have got another file before it was read. */
    if (!has_state(path, state)) {
        names_free(names);
        return false;
    }
    /* A file that changes now may change again and have the same state. */
    if (!file_state_is_since(state, now_ns) && add_known(state, ret_contents))
        return true;
    names_free(names);
    ret_contents->names = NULL;
    return true;
}
