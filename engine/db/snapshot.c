/* SPDX-License-Identifier: MIT */
#include "engine/db/snapshot.h"
#include "common/base/fs.h"
#include "engine/db/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Why the copy is consistent: kiln holds SQLite's shared lock on the file during the copy. So no
 * writer in rollback mode changes the file, and nobody deletes a log. A writer in WAL mode may
 * still append to the log, copy pages from the log into the file (checkpoint), and then write to
 * the log from its start again. kiln copies the file first and the log afterwards. Unless the log
 * started over in between, the copied log contains every page that a checkpoint changed during the
 * copy, and recovery replaces these pages. A log that starts over gets a new header (with new
 * salts), so the header is compared before and after.
 *
 * Example: page 7 is in the log. While kiln copies the file, a checkpoint writes page 7, and the
 * copy has half of the old page and half of the new one. The copied log still has all of page 7.
 *
 * A transaction that has not ended may rewrite its pages in the log in place. Their checksums are
 * corrected only when the transaction ends. If kiln copies the log earlier, the copy looks
 * damaged. Salvaging would then also apply frames after the apparent damage. So if the copied log
 * looks damaged, and the original log differs from it a moment later, the copy is made again.
 */

#define LOCK_WAIT_MS 5000
#define LOCK_PAUSE_MS 5
/* The maximum number of attempts to copy. The log starts over about once in a thousand pages, so
 * rarely during two attempts in a row. */
#define ATTEMPTS 8
/* How long to wait until a log that looks damaged is compared again. A transaction that has written
 * its last page usually ends sooner. */
#define SETTLED_MS 100
#define CHUNK (256 << 10)
#define LOG_HEADER 32

struct log_header {
    size_t size;
    uint8_t bytes[LOG_HEADER];
};

struct source {
    struct db *db; /* owned; gives access to SQLite's file object; runs no statement */
    sqlite3_file *file;
    const char *path; /* without symbolic links, because SQLite derives the log's name from that
                       * path */
    bool locked;
    bool salvage;
};

static void source_done(struct source *s)
{
    if (s->locked)
        s->file->pMethods->xUnlock(s->file, SQLITE_LOCK_NONE);
    db_destroy(s->db);
}

static char *add_suffix(const char *path, const char *suffix)
{
    char *name = malloc(strlen(path) + strlen(suffix) + 1);
    if (name)
        strcpy(stpcpy(name, path), suffix);
    return name;
}

static enum kiln_code out_of_memory(const char *path, struct kiln_err *err)
{
    return kiln_fail(err, KILN_NO_MEMORY, "cannot copy '%s': out of memory", path);
}

static enum kiln_code copy_failed(enum kiln_code rc, const char *path, struct kiln_err *err)
{
    return rc ? kiln_while(err, "copying '%s'", path) : KILN_OK;
}

/* Rejects FIFOs and devices: opening them could block forever. */
static enum kiln_code check_kind(const char *path, struct kiln_err *err)
{
    struct stat seen;
    if (stat(path, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", path);
    if (!S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_CORRUPT, "'%s' is not a regular file", path);
    return KILN_OK;
}

static enum kiln_code open_source(struct source *s, const char *path, struct kiln_err *err)
{
    enum kiln_code rc = check_kind(path, err);
    if (rc)
        return rc;
    s->db = calloc(1, sizeof(*s->db));
    if (s->db)
        s->db->path = strdup(path);
    if (!s->db || !s->db->path)
        return out_of_memory(path, err);
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int opened = sqlite3_open_v2(path, &s->db->handle, flags, NULL);
    if (opened == SQLITE_OK)
        opened = sqlite3_file_control(s->db->handle, "main", SQLITE_FCNTL_FILE_POINTER, &s->file);
    if (opened != SQLITE_OK)
        return db_fail(s->db, opened, "open", err);
    s->path = sqlite3_db_filename(s->db->handle, "main");
    return KILN_OK;
}

static enum kiln_code lock_source(struct source *s, struct kiln_err *err)
{
    int rc = s->file->pMethods->xLock(s->file, SQLITE_LOCK_SHARED);
    for (int waited = 0; rc == SQLITE_BUSY && waited < LOCK_WAIT_MS; waited += LOCK_PAUSE_MS) {
        sqlite3_sleep(LOCK_PAUSE_MS);
        rc = s->file->pMethods->xLock(s->file, SQLITE_LOCK_SHARED);
    }
    s->locked = rc == SQLITE_OK;
    if (rc == SQLITE_BUSY)
        return kiln_fail(err, KILN_BUSY,
                         "cannot read '%s': another process has locked it; try again later",
                         s->path);
    return s->locked ? KILN_OK : db_fail(s->db, rc, "lock", err);
}

static enum kiln_code make_file(const char *path, int *ret_fd, struct kiln_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot create '%s'", path);
    *ret_fd = fd;
    return KILN_OK;
}

/* Reads through SQLite's descriptor, because closing another descriptor of the file would drop this
 * process's locks. */
static enum kiln_code copy_file(struct source *s, const char *to, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = -1;
    sqlite3_int64 size = 0;
    int got = s->file->pMethods->xFileSize(s->file, &size);
    KILN_AUTO(mem) uint8_t *chunk = malloc(CHUNK);
    if (!chunk)
        return out_of_memory(s->path, err);
    enum kiln_code rc = make_file(to, &fd, err);
    for (sqlite3_int64 at = 0; !rc && got == SQLITE_OK && at < size; at += CHUNK) {
        int part = size - at < CHUNK ? (int)(size - at) : CHUNK;
        got = s->file->pMethods->xRead(s->file, chunk, part, at);
        if (got == SQLITE_IOERR_SHORT_READ) /* the file was truncated meanwhile */
            got = SQLITE_OK;
        if (got == SQLITE_OK)
            rc = fs_write_all(fd, bytes_of(chunk, (size_t)part), err);
    }
    if (!rc && got != SQLITE_OK)
        rc = db_fail(s->db, got, "read", err);
    return copy_failed(rc, s->path, err);
}

static enum kiln_code open_companion(const char *path, int *ret_fd, struct kiln_err *err)
{
    struct stat seen;
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return kiln_fail_errno(err, errno, "cannot open '%s'", path);
    if (fd >= 0 && (fstat(fd, &seen) != 0 || !S_ISREG(seen.st_mode)))
        return kiln_fail(err, KILN_CORRUPT, "'%s' is not a regular file", path);
    *ret_fd = fd;
    fd = -1;
    return KILN_OK;
}

static enum kiln_code read_log_header(const char *path, struct log_header *ret_header,
                                      struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = -1;
    enum kiln_code rc = open_companion(path, &fd, err);
    struct log_header header = { 0 };
    ssize_t got = fd < 0 ? 0 : fs_read_at(fd, header.bytes, LOG_HEADER, 0);
    if (!rc && got < 0)
        rc = kiln_fail_errno(err, errno, "cannot read '%s'", path);
    header.size = got > 0 ? (size_t)got : 0;
    if (!rc)
        *ret_header = header;
    return rc;
}

static enum kiln_code copy_content(int from_fd, int to_fd, struct kiln_err *err)
{
    KILN_AUTO(mem) uint8_t *chunk = malloc(CHUNK);
    if (!chunk)
        return kiln_fail(err, KILN_NO_MEMORY, "out of memory");
    for (;;) {
        ssize_t got = read(from_fd, chunk, CHUNK);
        if (got < 0 && errno != EINTR)
            return kiln_fail_errno(err, errno, "cannot read");
        if (got == 0)
            return KILN_OK;
        enum kiln_code rc =
            got < 0 ? KILN_OK : fs_write_all(to_fd, bytes_of(chunk, (size_t)got), err);
        if (rc)
            return rc;
    }
}

static enum kiln_code copy_companion(const char *from, const char *to, struct kiln_err *err)
{
    KILN_AUTO(fd) int from_fd = -1;
    KILN_AUTO(fd) int to_fd = -1;
    enum kiln_code rc = open_companion(from, &from_fd, err);
    if (!rc && from_fd >= 0)
        rc = make_file(to, &to_fd, err);
    if (!rc && from_fd >= 0)
        rc = copy_content(from_fd, to_fd, err);
    return copy_failed(rc, from, err);
}

/* Rejects a journal that names a super-journal, because SQLite would delete the named file. */
static enum kiln_code check_journal(const char *path, struct kiln_err *err)
{
    static const uint8_t magic[8] = { 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7 };
    uint8_t tail[sizeof(magic)];
    KILN_AUTO(fd) int fd = -1;
    enum kiln_code rc = open_companion(path, &fd, err);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    if (rc || size < (off_t)(2 * sizeof(magic)))
        return rc;
    if (fs_read_at(fd, tail, sizeof(tail), size - (off_t)sizeof(tail)) != (ssize_t)sizeof(tail))
        return kiln_fail_errno(err, errno, "cannot read '%s'", path);
    if (memcmp(tail, magic, sizeof(magic)) == 0)
        return kiln_fail(err, KILN_CORRUPT,
                         "a transaction over several files ended in the middle: open the file with "
                         "its own program first");
    return KILN_OK;
}

/* Copies the journal that a writer left when it died, because recovery needs it. If a writer holds
 * the reserved lock, the journal is not needed: that writer has not changed the file yet. */
static enum kiln_code copy_journal(struct source *s, const char *to, struct kiln_err *err)
{
    int reserved = 0;
    int asked = s->file->pMethods->xCheckReservedLock(s->file, &reserved);
    if (asked != SQLITE_OK)
        return db_fail(s->db, asked, "lock", err);
    KILN_AUTO(mem) char *from_journal = add_suffix(s->path, "-journal");
    KILN_AUTO(mem) char *to_journal = add_suffix(to, "-journal");
    if (!from_journal || !to_journal)
        return out_of_memory(s->path, err);
    enum kiln_code rc = reserved ? KILN_OK : copy_companion(from_journal, to_journal, err);
    if (!rc)
        rc = check_journal(to_journal, err);
    return rc == KILN_CORRUPT ? kiln_while(err, "copying '%s'", s->path) : rc;
}

static bool same_header(const struct log_header *a, const struct log_header *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, LOG_HEADER) == 0;
}

static enum kiln_code begins_with(const char *from, const char *copy, bool *ret_same,
                                  struct kiln_err *err)
{
    KILN_AUTO(fd) int from_fd = -1;
    KILN_AUTO(fd) int copy_fd = -1;
    KILN_AUTO(mem) uint8_t *chunk = malloc(2 * CHUNK);
    if (!chunk)
        return kiln_fail(err, KILN_NO_MEMORY, "out of memory");
    enum kiln_code rc = open_companion(from, &from_fd, err);
    if (!rc)
        rc = open_companion(copy, &copy_fd, err);
    bool same = from_fd >= 0 && copy_fd >= 0;
    for (off_t at = 0; !rc && same;) {
        ssize_t want = pread(copy_fd, chunk, CHUNK, at);
        if (want <= 0)
            break;
        ssize_t got = pread(from_fd, chunk + CHUNK, (size_t)want, at);
        same = got == want && memcmp(chunk, chunk + CHUNK, (size_t)want) == 0;
        at += want;
    }
    *ret_same = same;
    return rc;
}

/* Sets |ret_settled| to false if the copied log looks damaged, and the original log has changed
 * since. */
static enum kiln_code check_settled(const char *from_log, const char *to_log, bool *ret_settled,
                                    struct kiln_err *err)
{
    struct log_state log = { 0 };
    enum kiln_code rc = log_inspect(to_log, &log, err);
    *ret_settled = true;
    if (rc || !log.damaged)
        return rc;
    sqlite3_sleep(SETTLED_MS);
    return copy_failed(begins_with(from_log, to_log, ret_settled, err), from_log, err);
}

static enum kiln_code copy_once(struct source *s, const char *to, bool *ret_consistent,
                                struct kiln_err *err)
{
    bool settled = true;
    struct log_header before = { 0 }, after = { 0 };
    KILN_AUTO(mem) char *from_log = add_suffix(s->path, "-wal");
    KILN_AUTO(mem) char *to_log = add_suffix(to, "-wal");
    if (!from_log || !to_log)
        return out_of_memory(s->path, err);
    enum kiln_code rc = read_log_header(from_log, &before, err);
    if (!rc)
        rc = copy_file(s, to, err);
    if (!rc)
        rc = copy_journal(s, to, err);
    if (!rc)
        rc = copy_companion(from_log, to_log, err);
    if (!rc && s->salvage)
        rc = check_settled(from_log, to_log, &settled, err);
    if (!rc)
        rc = read_log_header(from_log, &after, err);
    if (!rc)
        *ret_consistent = settled && same_header(&before, &after);
    return rc;
}

enum kiln_code db_snapshot(const char *from, const char *to, bool salvage, struct kiln_err *err)
{
    __attribute__((cleanup(source_done))) struct source s = { .salvage = salvage };
    bool done = false;
    enum kiln_code rc = open_source(&s, from, err);
    /* Checked first, because db_snapshot_remove below would remove a file that existed before. */
    if (!rc && access(to, F_OK) == 0)
        return kiln_fail_errno(err, EEXIST, "cannot create '%s'", to);
    if (!rc)
        rc = lock_source(&s, err);
    for (int attempt = 1; !rc && !done && attempt <= ATTEMPTS; attempt++) {
        db_snapshot_remove(to);
        rc = copy_once(&s, to, &done, err);
    }
    if (!rc && !done)
        rc = kiln_fail(err, KILN_BUSY,
                       "cannot copy '%s': another process writes to it continuously; try again "
                       "later",
                       from);
    if (rc)
        db_snapshot_remove(to);
    return rc;
}

static enum kiln_code check_merged(const char *path, struct kiln_err *err)
{
    KILN_AUTO(mem) char *log = add_suffix(path, "-wal");
    if (!log)
        return out_of_memory(path, err);
    if (access(log, F_OK) == 0)
        return kiln_fail(err, KILN_CORRUPT, "the write-ahead log of '%s' cannot be merged into it",
                         path);
    return KILN_OK;
}

enum kiln_code db_snapshot_merge(const char *path, struct kiln_err *err)
{
    KILN_AUTO(db) struct db *db = NULL;
    struct db_options options = {
        .path = path, .value_max = 1 << 20, .cache_kib = 512, .foreign = true
    };
    enum kiln_code rc = db_open(&options, &db, err);
    if (!rc)
        rc = db_exec(db, "pragma synchronous = off; pragma journal_mode = delete", "recover", err);
    return rc ? rc : check_merged(path, err);
}

/* Removes the log and the journal, so that SQLite does not apply them again. */
static void remove_companions(const char *path)
{
    static const char *const suffixes[] = { "-wal", "-shm", "-journal" };
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        KILN_AUTO(mem) char *name = add_suffix(path, suffixes[i]);
        if (name)
            unlink(name);
    }
}

enum kiln_code db_snapshot_save(const char *path, struct log_state *ret_log, struct kiln_err *err)
{
    struct log_state log = { 0 };
    struct kiln_err why = KILN_ERR_INIT;
    KILN_AUTO(mem) char *log_path = add_suffix(path, "-wal");
    if (!log_path)
        return out_of_memory(path, err);
    enum kiln_code rc = log_inspect(log_path, &log, err);
    bool readable = log.pages > log.lost;
    bool by_page = log.damaged && readable;
    enum kiln_code merged = rc || by_page ? rc : db_snapshot_merge(path, &why);
    if (!rc && merged && (merged != KILN_CORRUPT || !readable)) {
        *err = why;
        rc = merged;
    }
    if (!rc && (merged || by_page))
        rc = log_apply(log_path, path, err);
    if (rc)
        return rc;
    remove_companions(path);
    *ret_log = log;
    return KILN_OK;
}

void db_snapshot_remove(const char *path)
{
    unlink(path);
    remove_companions(path);
}
