/* SPDX-License-Identifier: MIT */
#include "engine/db/log_salvage.h"

#include "common/bytes.h"
#include "common/cleanup.h"
#include "common/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x377f0682u /* its lowest bit: checksums take words as big-endian */
#define LOG_HEADER 32
#define PAGE_HEADER 24
#define SALT_SIZE 8
#define PAGE_SIZE_USUAL 4096 /* where neither header says anything believable */
#define PAGE_SIZE_AT 16      /* in a database file */

struct checksum {
    uint32_t a, b;
};

struct log {
    int fd;             /* owned */
    int file_fd;        /* owned; of the database, -1: nothing is put into it */
    uint32_t page_size; /* of both */
    bool is_big_endian; /* the checksums */
    bool has_header;    /* that passes its check */
    uint8_t salt[SALT_SIZE];
    struct checksum start; /* as stored with the header */
    struct checksum sum;   /* as stored with the page before */
    uint8_t *page;         /* owned, PAGE_HEADER + page_size bytes */
};

struct log_page {
    uint64_t at;    /* from 1 */
    uint32_t page;  /* its number in the file */
    uint32_t pages; /* how many the file then has; 0: the transaction goes on */
    bool sum_is_right;
    bool is_ours; /* of this log, not left from before it was started over */
    bool is_good;
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

static uint32_t be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t le32(const uint8_t *at)
{
    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static struct checksum checksum_at(const uint8_t *at)
{
    return (struct checksum){ be32(at), be32(at + 4) };
}

static bool same_checksum(struct checksum a, struct checksum b) { return a.a == b.a && a.b == b.b; }

/* |size| is a multiple of 8. */
static struct checksum go_on(const struct log *log, struct checksum sum, const uint8_t *bytes,
                             size_t size)
{
    for (size_t i = 0; i < size; i += 8) {
        sum.a += (log->is_big_endian ? be32(bytes + i) : le32(bytes + i)) + sum.b;
        sum.b += (log->is_big_endian ? be32(bytes + i + 4) : le32(bytes + i + 4)) + sum.a;
    }
    return sum;
}

/* ---- the header ---- */

static bool is_page_size(uint32_t size)
{
    return size >= 512 && size <= 65536 && (size & (size - 1)) == 0;
}

static uint32_t page_size_of_file(const char *log_path)
{
    uint8_t stored[2] = { 0 };
    size_t length = strlen(log_path) - strlen("-wal");
    KILN_AUTO(mem) char *path = strndup(log_path, length);
    KILN_AUTO(fd) int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0 || fs_read_at(fd, stored, sizeof(stored), PAGE_SIZE_AT) != (ssize_t)sizeof(stored))
        return PAGE_SIZE_USUAL;
    uint32_t size = (uint32_t)stored[0] << 8 | stored[1];
    size = size == 1 ? 65536 : size;
    return is_page_size(size) ? size : PAGE_SIZE_USUAL;
}

/* A header that fails its check is made good for from what stands beside it; the salt, later. */
static void read_header(struct log *log, const char *path, const uint8_t header[LOG_HEADER])
{
    uint32_t magic = be32(header);
    const struct checksum none = { 0, 0 };
    log->is_big_endian = magic == (MAGIC | 1);
    log->start = checksum_at(header + 24);
    log->sum = log->start;
    log->page_size = be32(header + 8);
    log->has_header = (magic & ~1u) == MAGIC && is_page_size(log->page_size) &&
                      same_checksum(go_on(log, none, header, 24), log->start);
    memcpy(log->salt, header + 16, SALT_SIZE);
    if (log->has_header)
        return;
    log->is_big_endian = false; /* as hardly any machine has written one */
    log->page_size = page_size_of_file(path);
}

/* ---- pages ---- */

/* False at the end. */
static bool next_page(struct log *log, struct log_page *p)
{
    size_t size = PAGE_HEADER + (size_t)log->page_size;
    uint64_t place = LOG_HEADER + p->at * size;
    if (log->fd < 0 || fs_read_at(log->fd, log->page, size, (off_t)place) != (ssize_t)size)
        return false;
    struct checksum stored = checksum_at(log->page + 16);
    struct checksum sum = go_on(log, log->sum, log->page, 8);
    sum = go_on(log, sum, log->page + PAGE_HEADER, log->page_size);
    *p = (struct log_page){ .at = p->at + 1,
                            .page = be32(log->page),
                            .pages = be32(log->page + 4),
                            .sum_is_right = same_checksum(sum, stored),
                            .is_ours = memcmp(log->page + 8, log->salt, SALT_SIZE) == 0 };
    p->is_good = p->is_ours && p->page > 0 && p->sum_is_right;
    log->sum = stored;
    return true;
}

/* ---- opening ---- */

/* That of the first page that continues the sum of the one before it. */
static void find_salt(struct log *log)
{
    struct log_page p = { 0 };
    bool found = false;
    while (!found && next_page(log, &p))
        found = p.sum_is_right && p.page > 0; /* zeros have the right sum, too */
    if (found)
        memcpy(log->salt, log->page + 8, SALT_SIZE);
    log->sum = log->start;
}

/* |log|->fd stays -1 where there is nothing to read. */
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
    if (!log->has_header)
        find_salt(log);
    return KILN_OK;
}

/* ---- how far it counts ---- */

struct extent {       /* how far a log counts */
    uint64_t claimed; /* the last page that says it ends a transaction */
    uint64_t good;    /* the last such page that can be read */
    uint64_t taken;   /* the last such page that recovery comes to */
    uint64_t bad;     /* pages up to |good| that cannot be read */
    uint32_t pages;   /* of the file after |good| */
};

static struct extent measure(struct log *log)
{
    struct extent e = { 0 };
    struct log_page p = { 0 };
    uint64_t bad = 0;
    while (next_page(log, &p)) {
        bad += !p.is_good;
        if (!p.is_ours || p.pages == 0)
            continue;
        e.claimed = p.at;
        if (log->has_header && bad == 0)
            e.taken = p.at;
        if (p.is_good) {
            e.good = p.at;
            e.bad = bad;
            e.pages = p.pages;
        }
    }
    log->sum = log->start;
    if (!log->has_header && e.claimed == 0) /* nothing in it tells how much there was */
        e.claimed = p.at;
    return e;
}

enum kiln_code log_look(const char *path, struct log_state *ret_state, struct kiln_err *err)
{
    LOG_AUTO struct log log = { .fd = -1, .file_fd = -1 };
    enum kiln_code rc = log_open(&log, path, err);
    if (rc)
        return rc;
    struct extent e = measure(&log);
    *ret_state = (struct log_state){ .pages = e.claimed,
                                     .lost = e.claimed - e.good + e.bad,
                                     .damaged = e.claimed > e.taken };
    return KILN_OK;
}

/* ---- putting them into the file ---- */

static enum kiln_code put_page(const struct log *log, const struct log_page *p, const char *path,
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

static enum kiln_code put_pages(struct log *log, const struct extent *e, const char *path,
                                struct kiln_err *err)
{
    struct log_page p = { 0 };
    enum kiln_code rc = KILN_OK;
    while (!rc && p.at < e->good && next_page(log, &p)) {
        if (p.is_good && p.page <= e->pages)
            rc = put_page(log, &p, path, err);
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
        e = measure(&log);
    if (rc || e.good == 0)
        return rc;
    log.file_fd = open(file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (log.file_fd < 0 || fstat(log.file_fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", file);
    /* An honest file has no page that is neither in it nor in the log. */
    if (e.pages > (uint64_t)seen.st_size / log.page_size + e.good)
        return kiln_fail(err, KILN_CORRUPT, "the write-ahead log of '%s' names %u pages", file,
                         (unsigned)e.pages);
    rc = put_pages(&log, &e, file, err);
    if (!rc && ftruncate(log.file_fd, (off_t)e.pages * log.page_size) != 0)
        rc = kiln_fail_errno(err, errno, "cannot write to '%s'", file);
    return rc;
}
