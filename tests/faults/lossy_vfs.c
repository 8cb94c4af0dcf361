/* SPDX-License-Identifier: MIT */
#include "tests/faults/lossy_vfs.h"

#include "tests/support/test.h"

#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 8u
#define MOMENTS_MAX 20000u
#define NAME_LENGTH_MAX 64u
#define SECTOR 512

enum change { WRITTEN, CUT, DELETED, SYNCED, ACKNOWLEDGED };

struct moment {
    enum change change;
    unsigned file;
    /* a write's offset, the size after a truncation, or the number that was acknowledged */
    sqlite3_int64 at;
    int size;
    unsigned char *data; /* the bytes of a write; never freed */
};

struct content {
    unsigned char *data;
    size_t size;
    int there;
};

static sqlite3_vfs *real, lossy;
static struct {
    char names[FILES_MAX][NAME_LENGTH_MAX]; /* file names without the directory */
    struct content first[FILES_MAX];
    unsigned file_count;
    struct moment moments[MOMENTS_MAX];
    size_t count;
    int logs;
} disk;

static unsigned file_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (unsigned i = 0; i < disk.file_count; i++)
        if (strcmp(disk.names[i], name) == 0)
            return i;
    assert_true(disk.file_count < FILES_MAX && strlen(name) < NAME_LENGTH_MAX);
    strcpy(disk.names[disk.file_count], name);
    return disk.file_count++;
}

static void log_entry(struct moment moment)
{
    if (!disk.logs)
        return;
    assert_true(disk.count < MOMENTS_MAX);
    disk.moments[disk.count++] = moment;
}

void lossy_acknowledge(unsigned number)
{
    log_entry((struct moment){ .change = ACKNOWLEDGED, .at = number });
}

size_t lossy_moments(void) { return disk.count; }

static void read_first(const char *path, struct content *content)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    content->size = (size_t)ftell(file);
    content->data = malloc(content->size + 1);
    assert_non_null(content->data);
    rewind(file);
    assert_int_equal(fread(content->data, 1, content->size, file), content->size);
    content->there = 1;
    fclose(file);
}

void lossy_begin(const char *directory)
{
    char path[512];
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (!strstr(e->d_name, ".db"))
            continue;
        snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
        read_first(path, &disk.first[file_of(path)]);
    }
    closedir(dir);
    disk.logs = 1;
}

struct lossy_file {
    sqlite3_file base; /* first member */
    unsigned file;
};

static sqlite3_file *real_of(sqlite3_file *f)
{
    return (sqlite3_file *)(void *)((struct lossy_file *)f + 1);
}
#define REAL(f) real_of(f)->pMethods

static int on_close(sqlite3_file *f) { return REAL(f)->xClose(real_of(f)); }
static int on_read(sqlite3_file *f, void *to, int size, sqlite3_int64 at)
{
    return REAL(f)->xRead(real_of(f), to, size, at);
}
static int on_write(sqlite3_file *f, const void *from, int size, sqlite3_int64 at)
{
    struct moment m = { WRITTEN, ((struct lossy_file *)f)->file, at, size, NULL };
    if (disk.logs) {
        m.data = malloc((size_t)size);
        assert_non_null(m.data);
        memcpy(m.data, from, (size_t)size);
        log_entry(m);
    }
    return REAL(f)->xWrite(real_of(f), from, size, at);
}
static int on_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    log_entry((struct moment){ CUT, ((struct lossy_file *)f)->file, size, 0, NULL });
    return REAL(f)->xTruncate(real_of(f), size);
}
/* Only logs the sync. A real sync would be slow, and the real disk does not lose power. */
static int on_sync(sqlite3_file *f, int flags)
{
    (void)flags;
    log_entry((struct moment){ SYNCED, ((struct lossy_file *)f)->file, 0, 0, NULL });
    return SQLITE_OK;
}
static int on_size(sqlite3_file *f, sqlite3_int64 *ret_size)
{
    return REAL(f)->xFileSize(real_of(f), ret_size);
}
static int on_lock(sqlite3_file *f, int how) { return REAL(f)->xLock(real_of(f), how); }
static int on_unlock(sqlite3_file *f, int how) { return REAL(f)->xUnlock(real_of(f), how); }
static int on_check_lock(sqlite3_file *f, int *ret_held)
{
    return REAL(f)->xCheckReservedLock(real_of(f), ret_held);
}
static int on_control(sqlite3_file *f, int what, void *argument)
{
    return REAL(f)->xFileControl(real_of(f), what, argument);
}
static int on_sector_size(sqlite3_file *f) { return REAL(f)->xSectorSize(real_of(f)); }
static int on_characteristics(sqlite3_file *f)
{
    return REAL(f)->xDeviceCharacteristics(real_of(f));
}
static int on_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **ret_at)
{
    return REAL(f)->xShmMap(real_of(f), page, size, extend, ret_at);
}
static int on_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    return REAL(f)->xShmLock(real_of(f), offset, n, flags);
}
static void on_shm_barrier(sqlite3_file *f) { REAL(f)->xShmBarrier(real_of(f)); }
static int on_shm_unmap(sqlite3_file *f, int deletes)
{
    return REAL(f)->xShmUnmap(real_of(f), deletes);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_check_lock,
    .xFileControl = on_control,
    .xSectorSize = on_sector_size,
    .xDeviceCharacteristics = on_characteristics,
    .xShmMap = on_shm_map,
    .xShmLock = on_shm_lock,
    .xShmBarrier = on_shm_barrier,
    .xShmUnmap = on_shm_unmap,
};

static int on_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f, int flags,
                   int *ret_flags)
{
    struct lossy_file *file = (struct lossy_file *)f;
    (void)vfs;
    file->base.pMethods = NULL;
    file->file = name ? file_of(name) : 0;
    int rc = real->xOpen(real, name, real_of(f), flags, ret_flags);
    if (rc == SQLITE_OK)
        file->base.pMethods = &methods;
    return rc;
}

static int on_delete(sqlite3_vfs *vfs, const char *name, int syncs)
{
    (void)vfs;
    log_entry((struct moment){ DELETED, file_of(name), 0, 0, NULL });
    return real->xDelete(real, name, syncs);
}

void lossy_install(void)
{
    real = sqlite3_vfs_find(NULL);
    lossy = *real;
    lossy.zName = "lossy";
    lossy.szOsFile = (int)sizeof(struct lossy_file) + real->szOsFile;
    lossy.xOpen = on_open;
    lossy.xDelete = on_delete;
    assert_int_equal(sqlite3_vfs_register(&lossy, 1), SQLITE_OK);
}

static unsigned choose_below(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % below;
}

static void set_size(struct content *c, size_t size)
{
    if (size > c->size) {
        c->data = realloc(c->data, size);
        assert_non_null(c->data);
        memset(c->data + c->size, 0, size - c->size);
    }
    c->size = size;
    c->there = 1;
}

/* Writes |m| into |c| or, if |torn| is not NULL, a random choice of its sectors. |torn| is the
 * state of the random numbers. */
static void apply_write(struct content *c, const struct moment *m, unsigned *torn)
{
    size_t end = (size_t)m->at + (size_t)m->size;
    if (end > c->size)
        set_size(c, end);
    for (int from = 0; from < m->size; from += SECTOR) {
        size_t size = (size_t)(m->size - from < SECTOR ? m->size - from : SECTOR);
        if (!torn || choose_below(torn, 2))
            memcpy(c->data + m->at + from, m->data + from, size);
    }
}

static void apply_entry(struct content *c, const struct moment *m, unsigned *torn)
{
    if (m->change == WRITTEN)
        apply_write(c, m, torn);
    else if (m->change == CUT)
        set_size(c, (size_t)m->at);
    else if (m->change == DELETED) {
        set_size(c, 0);
        c->there = 0;
    }
}

static void replay_file(unsigned file, size_t moment, unsigned *seed, struct content *c)
{
    size_t synced = 0;
    for (size_t i = 0; i < moment; i++)
        if (disk.moments[i].change == SYNCED && disk.moments[i].file == file)
            synced = i;
    for (size_t i = 0; i < moment; i++) {
        const struct moment *m = &disk.moments[i];
        if (m->file != file || m->change == SYNCED || m->change == ACKNOWLEDGED)
            continue;
        unsigned fate = i < synced ? 0 : choose_below(seed, 3); /* 0: applied, 1: lost, 2: torn */
        if (fate != 1)
            apply_entry(c, m, fate == 2 ? seed : NULL);
    }
}

unsigned lossy_write(size_t moment, unsigned seed, const char *into)
{
    unsigned acknowledged = 0;
    for (unsigned f = 0; f < disk.file_count; f++) {
        char path[512];
        struct content c = { NULL, 0, disk.first[f].there };
        set_size(&c, disk.first[f].size);
        c.there = disk.first[f].there;
        if (c.size)
            memcpy(c.data, disk.first[f].data, c.size);
        replay_file(f, moment, &seed, &c);
        snprintf(path, sizeof(path), "%s/%s", into, disk.names[f]);
        FILE *file = c.there ? fopen(path, "we") : NULL;
        if (file) {
            assert_int_equal(fwrite(c.data, 1, c.size, file), c.size);
            assert_int_equal(fclose(file), 0);
        }
        free(c.data);
    }
    for (size_t i = 0; i < moment; i++)
        if (disk.moments[i].change == ACKNOWLEDGED)
            acknowledged = (unsigned)disk.moments[i].at;
    return acknowledged;
}
