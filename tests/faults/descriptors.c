/* SPDX-License-Identifier: MIT */
#include "tests/faults/descriptors.h"

#include "tests/support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add_kind(struct descriptors *d, const char *what, unsigned count)
{
    for (unsigned i = 0; i < d->kind_count; i++) {
        if (strcmp(d->kinds[i].what, what) == 0) {
            d->kinds[i].count += count;
            return;
        }
    }
    assert_true(d->kind_count < DESCRIPTOR_KINDS_MAX);
    struct descriptor_kind *kind = &d->kinds[d->kind_count++];
    snprintf(kind->what, sizeof(kind->what), "%s", what);
    kind->count = count;
}

/* The name of an index file has a part that differs between imports of the same database, such as
 * "6b0345" in "find-gfx90a68.HIP-6b0345.kti". Removes this part from |what|. */
static void cut_unique(char *what)
{
    size_t size = strlen(what);
    char *dash = strrchr(what, '-');
    if (dash && size > 4 && strcmp(what + size - 4, ".kti") == 0)
        strcpy(dash, ".kti");
}

/* Adds the descriptor with the link |name| in /proc/PID/fd. Shortens its target, such as
 * "socket:[4711]", to "socket". Skips a descriptor that has been closed meanwhile. */
static void add_link(struct descriptors *d, int directory, const char *name)
{
    char what[160];
    ssize_t got = readlinkat(directory, name, what, sizeof(what) - 1);
    what[got > 0 ? got : 0] = '\0';
    char *number = strstr(what, ":[");
    bool is_made = strncmp(what, "anon_inode", 10) == 0; /* "anon_inode:[eventfd]" */
    if (number && !is_made)
        *number = '\0';
    cut_unique(what);
    if (*what)
        add_kind(d, what, 1);
}

void descriptors_list(pid_t pid, struct descriptors *ret_seen)
{
    char path[64];
    *ret_seen = (struct descriptors){ .kind_count = 0 };
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        bool is_own = pid == getpid() && atoi(e->d_name) == dirfd(dir);
        if (e->d_name[0] != '.' && !is_own)
            add_link(ret_seen, dirfd(dir), e->d_name);
    }
    closedir(dir);
}

unsigned descriptors_count(const struct descriptors *d, const char *part)
{
    unsigned count = 0;
    for (unsigned i = 0; i < d->kind_count; i++)
        if (strstr(d->kinds[i].what, part))
            count += d->kinds[i].count;
    return count;
}

void descriptors_remove(struct descriptors *d, const char *part)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < d->kind_count; i++)
        if (!strstr(d->kinds[i].what, part))
            d->kinds[kept++] = d->kinds[i];
    d->kind_count = kept;
}

static unsigned count_of(const struct descriptors *d, const char *what)
{
    for (unsigned i = 0; i < d->kind_count; i++)
        if (strcmp(d->kinds[i].what, what) == 0)
            return d->kinds[i].count;
    return 0;
}

void descriptors_keep_common(struct descriptors *d, const struct descriptors *other)
{
    for (unsigned i = 0; i < d->kind_count; i++) {
        unsigned count = count_of(other, d->kinds[i].what);
        d->kinds[i].count = count < d->kinds[i].count ? count : d->kinds[i].count;
    }
}

bool descriptors_equal(const struct descriptors *now, const struct descriptors *before,
                       char ret_text[512])
{
    struct descriptors all = *now;
    size_t size = 0;
    ret_text[0] = '\0';
    for (unsigned i = 0; i < before->kind_count; i++)
        add_kind(&all, before->kinds[i].what, 0);
    for (unsigned i = 0; i < all.kind_count; i++) {
        const char *what = all.kinds[i].what;
        unsigned has = count_of(now, what), had = count_of(before, what);
        if (has != had && size < 400)
            size += (size_t)snprintf(ret_text + size, 512 - size, "%s%.60s: %u, before %u",
                                     size ? "; " : "", what, has, had);
    }
    return size == 0;
}
