/* SPDX-License-Identifier: MIT */
#include "engine/db/log_salvage.h"

#include "common/base/bytes.h"
#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/db/sqlite_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The format (https://sqlite.org/fileformat2.html#walformat): a header of 32 bytes, then frames. A
 * frame is a header of 24 bytes and one page of the database. All numbers are big-endian.
 *
 *   log header:    0 magic  8 page size  16 salt (8 bytes)  24 checksum of bytes 0 to 23
 *   frame header:  0 page number  4 pages of the file, if this frame ends a transaction, else 0
 *                  8 salt  16 checksum
 *
 * When a log is full and checkpointed, the writer starts over at its beginning with another salt.
 * Later frames that still have the old salt are leftovers.
 *
 * The checksum is cumulative. A frame's checksum starts with the checksum of the frame before it,
 * and continues over the first 8 bytes of the header and the page. SQLite therefore rejects every
 * frame after a damaged one. But each frame also stores its checksum. So this code starts the
 * checksum of each frame with the one that the previous frame stores. One damaged page then makes
 * at most two frames bad: its own and, if its stored checksum is damaged, the next one.
 *
 * Example: of frames 1 to 6, frames 2, 4 and 6 end transactions, and the page of frame 3 is
 * damaged. SQLite recovers frames 1 and 2. This code applies frames 1, 2, 4, 5 and 6. The page of
 * frame 3 keeps its older content, so the caller must check that rows fit together.
 *
 * SQLite writes a frame's header, then its page. If the writer is killed in between, the new header
 * is followed by the page of a leftover frame, or by zeros with which db.c lengthened the log. If
 * this frame was to end the last transaction, then that transaction was not committed, and the log
 * is not damaged. The log's index, the -shm file, distinguishes this case from damage: SQLite
 * counts a transaction there only after all its frames were written and synced. After a power
 * failure, the index may be missing: an incomplete transaction then counts as damage. Or the index
 * may be older than the log: damage of the frame that ends the last transaction is then not
 * noticed.
 *
 *   index header:  12 whether it is complete (1 byte)  16 frames of complete transactions
 *                  32 salt; two copies of 48 bytes, which differ while SQLite writes them. Numbers
 *                  have the machine's byte order
 */
#define MAGIC 0x377f0682u /* with the lowest bit set: checksums use big-endian words */
#define LOG_HEADER 32
#define PAGE_HEADER 24
#define SALT_SIZE 8
#define INDEX_HEADER 48

struct checksum {
    uint32_t a, b;
};

struct log {
    int fd;
    int file_fd; /* owned; the database; -1: the log is only inspected */
    uint32_t page_size;
    bool is_big_endian; /* checksums are computed from big-endian words */
    bool has_header;
    uint8_t salt[SALT_SIZE];
    struct checksum start;
    struct checksum sum;
    /* number of frames that belong to complete transactions; UINT64_MAX: unknown */
    uint64_t counted;
    uint8_t *page;
};

struct log_page {
    uint64_t at;    /* number of the frame, from 1 */
    uint32_t page;  /* number of the page in the database */
    uint32_t pages; /* pages of the database after this transaction; 0: the transaction continues */
    bool sum_is_right;
    bool is_current; /* has the log's salt, so it is not a leftover */
    bool is_good;
    bool is_unwritten; /* the writer ended before it had written all of this frame */
};

static void log_done(struct log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    if (log->file_fd >= 0)
        close(log->file_fd);
    free(log->page);
}
#define LOG_AUTO __attribute__((cleanup(log_done)))

static uint32_t le32(const uint8_t *at)
{
    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static struct checksum checksum_at(const uint8_t *at)
{
    return (struct checksum){ sqlite_be32(at), sqlite_be32(at + 4) };
}

static bool same_checksum(struct checksum a, struct checksum b) { return a.a == b.a && a.b == b.b; }

static struct checksum extend_checksum(const struct log *log, struct checksum sum,
                                       const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i += 8) {
        sum.a += (log->is_big_endian ? sqlite_be32(bytes + i) : le32(bytes + i)) + sum.b;
        sum.b += (log->is_big_endian ? sqlite_be32(bytes + i + 4) : le32(bytes + i + 4)) + sum.a;
    }
    return sum;
}

/* Reads from the database to which the log |log_path| belongs if |suffix| is "", or from the log's
 * index if |suffix| is "-shm". */
static bool read_beside(const char *log_path, const char *suffix, off_t at, void *into, size_t size)
{
    char *path = NULL;
    int length = (int)(strlen(log_path) - strlen("-wal"));
    if (asprintf(&path, "%.*s%s", length, log_path, suffix) < 0)
        return false;
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    free(path);
    return fd >= 0 && fs_read_at(fd, into, size, at) == (ssize_t)size;
}

static uint32_t page_size_of_file(const char *log_path)
{
    uint8_t stored[2] = { 0 };
    return read_beside(log_path, "", SQLITE_PAGE_SIZE_AT, stored, sizeof(stored))
               ? sqlite_page_size(stored)
               : SQLITE_PAGE_SIZE_DEFAULT;
}

static uint64_t read_counted(const struct log *log, const char *path)
{
    uint8_t index[2 * INDEX_HEADER] = { 0 };
    uint32_t frames;
    bool fine = read_beside(path, "-shm", 0, index, sizeof(index)) && index[12] != 0 &&
                memcmp(index, index + INDEX_HEADER, INDEX_HEADER) == 0 &&
                memcmp(index + 32, log->salt, SALT_SIZE) == 0;
    memcpy(&frames, index + 16, sizeof(frames));
    return fine ? frames : UINT64_MAX;
}

/* Reads the log's header. If the header fails its check, the caller must find the salt with
 * find_salt. */
static void read_header(struct log *log, const char *path, const uint8_t header[LOG_HEADER])
{
    uint32_t magic = sqlite_be32(header);
    const struct checksum none = { 0, 0 };
    log->is_big_endian = magic == (MAGIC | 1);
    log->start = checksum_at(header + 24);
    log->sum = log->start;
    log->page_size = sqlite_be32(header + 8);
    log->has_header = (magic & ~1u) == MAGIC && sqlite_is_page_size(log->page_size) &&
                      same_checksum(extend_checksum(log, none, header, 24), log->start);
    memcpy(log->salt, header + 16, SALT_SIZE);
    if (log->has_header)
        return;
    log->is_big_endian = false; /* assumes the byte order of almost all machines */
    log->page_size = page_size_of_file(path);
}

static bool read_next_page(struct log *log, struct log_page *p)
{
    size_t size = PAGE_HEADER + (size_t)log->page_size;
    uint64_t place = LOG_HEADER + p->at * size;
    if (log->fd < 0 || fs_read_at(log->fd, log->page, size, (off_t)place) != (ssize_t)size)
        return false;
    struct checksum stored = checksum_at(log->page + 16);
    struct checksum sum = extend_checksum(log, log->sum, log->page, 8);
    sum = extend_checksum(log, sum, log->page + PAGE_HEADER, log->page_size);
    *p = (struct log_page){ .at = p->at + 1,
                            .page = sqlite_be32(log->page),
                            .pages = sqlite_be32(log->page + 4),
                            .sum_is_right = same_checksum(sum, stored),
                            .is_current = memcmp(log->page + 8, log->salt, SALT_SIZE) == 0 };
    p->is_good = p->is_current && p->page > 0 && p->sum_is_right;
    p->is_unwritten = !p->is_good && p->at > log->counted;
    log->sum = stored;
    return true;
}

/* Uses the salt of the first frame whose checksum continues the checksum of the frame before it. */
static void find_salt(struct log *log)
{
    struct log_page p = { 0 };
    bool found = false;
    while (!found && read_next_page(log, &p))
        found = p.sum_is_right && p.page > 0; /* a frame of zeros also has the right checksum */
    if (found)
        memcpy(log->salt, log->page + 8, SALT_SIZE);
    log->sum = log->start;
}

/* Opens the log. If there is no log, or an empty one, |log|->fd remains -1. */
static enum kiln_code log_open(struct log *log, const char *path, struct kiln_err *err)
{
    uint8_t header[LOG_HEADER];
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? KILN_OK : kiln_fail_errno(err, errno, "cannot open '%s'", path);
    ssize_t got = fs_read_at(fd, header, sizeof(header), 0);
    if (got < 0)
        return kiln_fail_errno(err, errno, "cannot read '%s'", path);
    if (got < (ssize_t)sizeof(header))
        return KILN_OK;
    log->fd = fd;
    fd = -1;
    read_header(log, path, header);
    log->page = malloc(PAGE_HEADER + (size_t)log->page_size);
    if (!log->page)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot read '%s': out of memory", path);
    log->counted = UINT64_MAX;
    if (!log->has_header)
        find_salt(log);
    log->counted = read_counted(log, path);
    return KILN_OK;
}

struct extent {
    uint64_t last_end;   /* the last frame whose header says that it ends a transaction */
    uint64_t good_end;   /* the last frame that ends a transaction and passes its check */
    uint64_t sqlite_end; /* the last frame that ends a transaction and that SQLite's recovery would
                          * reach */
    uint64_t bad;        /* frames up to |good_end| that fail their check */
    uint32_t file_pages; /* length of the database after the frame |good_end| */
};

static struct extent measure_log(struct log *log)
{
    struct extent e = { 0 };
    struct log_page p = { 0 };
    uint64_t bad = 0, last_used = 0;
    while (read_next_page(log, &p)) {
        bad += !p.is_good;
        if (p.page > 0) /* page 0: zeros that lengthened the log */
            last_used = p.at;
        if (!p.is_current || p.pages == 0 || p.is_unwritten)
            continue;
        e.last_end = p.at;
        if (log->has_header && bad == 0)
            e.sqlite_end = p.at;
        if (p.is_good) {
            e.good_end = p.at;
            e.bad = bad;
            e.file_pages = p.pages;
        }
    }
    log->sum = log->start;
    /* If neither the header nor the end of any transaction can be read, all frames are lost. */
    if (!log->has_header && e.last_end == 0)
        e.last_end = last_used;
    return e;
}

enum kiln_code log_inspect(const char *path, struct log_state *ret_state, struct kiln_err *err)
{
    LOG_AUTO struct log log = { .fd = -1, .file_fd = -1 };
    enum kiln_code rc = log_open(&log, path, err);
    if (rc)
        return rc;
    struct extent e = measure_log(&log);
    *ret_state = (struct log_state){ .pages = e.last_end,
                                     .lost = e.last_end - e.good_end + e.bad,
                                     .damaged = e.last_end > e.sqlite_end };
    return KILN_OK;
}

static enum kiln_code write_page(const struct log *log, const struct log_page *p, const char *path,
                                 struct kiln_err *err)
{
    off_t at = (off_t)(p->page - 1) * log->page_size;
    for (size_t done = 0; done < log->page_size;) {
        ssize_t put = pwrite(log->file_fd, log->page + PAGE_HEADER + done, log->page_size - done,
                             at + (off_t)done);
        if (put < 0 && errno != EINTR)
            return kiln_fail_errno(err, errno, "cannot write to '%s'", path);
        done += put > 0 ? (size_t)put : 0;
    }
    return KILN_OK;
}

static enum kiln_code write_pages(struct log *log, const struct extent *e, const char *path,
                                  struct kiln_err *err)
{
    struct log_page p = { 0 };
    enum kiln_code rc = KILN_OK;
    while (!rc && p.at < e->good_end && read_next_page(log, &p)) {
        if (p.is_good && p.page <= e->file_pages)
            rc = write_page(log, &p, path, err);
    }
    return rc;
}

enum kiln_code log_apply(const char *path, const char *file, struct kiln_err *err)
{
    LOG_AUTO struct log log = { .fd = -1, .file_fd = -1 };
    struct stat seen;
    enum kiln_code rc = log_open(&log, path, err);
    struct extent e = { 0 };
    if (!rc)
        e = measure_log(&log);
    if (rc || e.good_end == 0)
        return rc;
    log.file_fd = open(file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (log.file_fd < 0 || fstat(log.file_fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", file);
    /* A valid database has no more pages than its file and its log together. */
    if (e.file_pages > (uint64_t)seen.st_size / log.page_size + e.good_end)
        return kiln_fail(err, KILN_CORRUPT,
                         "the write-ahead log of '%s' claims %u pages, more than exist", file,
                         (unsigned)e.file_pages);
    rc = write_pages(&log, &e, file, err);
    if (!rc && ftruncate(log.file_fd, (off_t)e.file_pages * log.page_size) != 0)
        rc = kiln_fail_errno(err, errno, "cannot write to '%s'", file);
    return rc;
}
