/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_db_parts.h"

#include "common/base/fs.h"
#include "engine/db/log_salvage.h"
#include "engine/db/page_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define LOG_NAME TUNING_FILE "-wal"
#define COPY_STEP (64u << 10)
/* Maximum size of a row with its key. */
#define ROW_MAX (TUNING_CONTENT_MAX + (64u << 10))

struct salvage {
    struct tuning_db *owner;
    struct page_scan *scan;
    struct db *to;
    struct transaction transaction;
    struct buffer record;
    uint64_t refused;
    bool found_twice;
    uint64_t expected[3]; /* numbers of rows that the damaged file states, indexed by enum
                           * tuning_tally */
    bool expected_known[3];
    bool log_lost;
    struct kiln_err failure;
};

static void salvage_done(struct salvage *s)
{
    transaction_done(&s->transaction);
    db_destroy(s->to);
    page_scan_destroy(s->scan);
    buffer_done(&s->record);
}
#define SALVAGE_AUTO __attribute__((cleanup(salvage_done)))

#define HEADER_SIZE 100
#define HEADER_TEXT "SQLite format 3"
#define VERSION_WAL 2

/* Rejects newer versions of the file format. SQLite would open such a file read-only, without an
 * error. */
static enum kiln_code look_at_header(const struct tuning_db *db, struct kiln_err *err)
{
    uint8_t header[HEADER_SIZE];
    KILN_AUTO(fd) int fd = openat(db->home.fd, TUNING_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = fd < 0 ? -1 : fs_read_at(fd, header, sizeof(header), 0);
    if (got < 0)
        return kiln_fail_errno(err, errno, "cannot read '%s'", db->path);
    bool ours = got == (ssize_t)sizeof(header) &&
                memcmp(header, HEADER_TEXT, sizeof(HEADER_TEXT)) == 0 && header[18] >= 1 &&
                header[18] <= VERSION_WAL && header[19] == header[18];
    return ours ? KILN_OK
                : kiln_fail(err, KILN_CORRUPT, "it does not begin like a SQLite database");
}

enum kiln_code tuning_file_look(const struct tuning_db *db, struct kiln_err *err)
{
    struct log_state log = { 0 };
    KILN_AUTO(mem) char *path = NULL;
    enum kiln_code rc = look_at_header(db, err);
    if (rc)
        return rc;
    if (asprintf(&path, "%s-wal", db->path) < 0) {
        path = NULL;
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s': out of memory", db->path);
    }
    rc = log_inspect(path, &log, err);
    if (!rc && log.damaged)
        rc = kiln_fail(err, KILN_CORRUPT, "its write-ahead log has pages that cannot be read");
    return rc;
}

static bool has_kinds(const struct page_cell *cell, const uint8_t *kinds, size_t count)
{
    return cell->id > 0 && cell->columns == count && memcmp(cell->kinds, kinds, count) == 0;
}

static bool is_record(const struct page_cell *cell)
{
    static const uint8_t kinds[] = { PAGE_NULL, PAGE_NUMBER, PAGE_NUMBER, PAGE_NUMBER,
                                     PAGE_TEXT, PAGE_TEXT,   PAGE_BLOB,   PAGE_BLOB };
    return has_kinds(cell, kinds, sizeof(kinds));
}

static bool is_system(const struct page_cell *cell)
{
    static const uint8_t kinds[] = { PAGE_NULL, PAGE_NUMBER, PAGE_TEXT, PAGE_TEXT, PAGE_BLOB };
    return has_kinds(cell, kinds, sizeof(kinds));
}

static bool is_tally(const struct page_cell *cell)
{
    static const uint8_t kinds[] = { PAGE_NULL, PAGE_NUMBER, PAGE_NUMBER };
    return has_kinds(cell, kinds, sizeof(kinds)) && cell->id <= TUNING_TALLY_SYSTEMS;
}

static bool copy_name(struct bytes text, char into[TUNING_NAME_MAX + 1])
{
    if (text.size > TUNING_NAME_MAX)
        return false;
    if (text.size > 0)
        memcpy(into, text.data, text.size);
    into[text.size] = '\0';
    return true;
}

static bool is_in(int64_t number, int64_t min, int64_t max)
{
    return number >= min && number <= max;
}

static uint64_t newest_time(const struct tuning_row *rows, size_t count)
{
    uint64_t newest = 0;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].measured.measured_at > newest)
            newest = rows[i].measured.measured_at;
    }
    return newest;
}

/* Looks for a version of the record that was already salvaged. Freed pages may contain old versions
 * of a record. |ret_newest| is the latest time of a measurement in the salvaged version, or 0. */
static enum kiln_code look_saved(struct salvage *s, const struct tuning_place *place,
                                 struct bytes content, uint64_t *ret_newest, struct kiln_err *err)
{
    size_t count = 0;
    bool there = false;
    QUERY_AUTO struct query q = query_of(s->to, TUNING_RECORD_CONTENT);
    tuning_bind_place(&q, place);
    *ret_newest = 0;
    enum kiln_code rc = query_step(&q, &there, err);
    if (rc || !there)
        return rc;
    s->found_twice |= !bytes_equal(query_bytes(&q, 0), content);
    if (tuning_record_unpack(place, query_bytes(&q, 0), s->owner->rows, &count))
        *ret_newest = newest_time(s->owner->rows, count);
    return KILN_OK;
}

static enum kiln_code save_record(struct salvage *s, const struct page_value v[PAGE_COLUMNS_MAX],
                                  struct kiln_err *err)
{
    char database_id[TUNING_NAME_MAX + 1], backend[TUNING_NAME_MAX + 1];
    size_t count = 0;
    if (!is_in(v[1].number, TUNING_TIER_HOST, TUNING_TIER_USER) ||
        !is_in(v[2].number, 0, TUNING_NOBODY) || !is_in(v[3].number, TUNING_FIND, TUNING_PERF) ||
        !copy_name(v[4].bytes, database_id) || !copy_name(v[5].bytes, backend))
        return KILN_CORRUPT;
    struct tuning_place place = { .tier = (enum tuning_tier)v[1].number,
                                  .uid = (uint32_t)v[2].number,
                                  .kind = (enum tuning_kind)v[3].number,
                                  .database_id = database_id,
                                  .backend = backend,
                                  .key = v[6].bytes };
    if (!tuning_record_unpack(&place, v[7].bytes, s->owner->rows, &count))
        return KILN_CORRUPT;
    uint64_t found = newest_time(s->owner->rows, count), saved = 0;
    enum kiln_code rc = look_saved(s, &place, v[7].bytes, &saved, err);
    if (rc || found < saved)
        return rc;
    QUERY_AUTO struct query q = query_of(s->to, TUNING_RECORD_PUT);
    tuning_bind_place(&q, &place);
    query_bind_bytes(&q, 7, v[7].bytes);
    return query_run(&q, err);
}

static enum kiln_code save_system(struct salvage *s, const struct page_value v[PAGE_COLUMNS_MAX],
                                  struct kiln_err *err)
{
    char database_id[TUNING_NAME_MAX + 1], backend[TUNING_NAME_MAX + 1];
    if (!is_in(v[1].number, TUNING_FIND, TUNING_PERF) || !copy_name(v[2].bytes, database_id) ||
        !copy_name(v[3].bytes, backend))
        return KILN_CORRUPT;
    struct tuning_system_file system = { .kind = (enum tuning_kind)v[1].number,
                                         .database_id = database_id,
                                         .backend = backend };
    if (!tuning_system_unpack(&system, v[4].bytes))
        return KILN_CORRUPT;
    QUERY_AUTO struct query q = query_of(s->to, TUNING_SYSTEM_PUT);
    query_bind_u64(&q, 1, system.kind);
    query_bind_text(&q, 2, database_id);
    query_bind_text(&q, 3, backend);
    query_bind_bytes(&q, 4, v[4].bytes);
    return query_run(&q, err);
}

static void note_tally(struct salvage *s, int64_t id, const struct page_value v[PAGE_COLUMNS_MAX])
{
    if (v[1].number < 0 || v[2].number != -1 - v[1].number)
        return;
    s->expected[id] = (uint64_t)v[1].number;
    s->expected_known[id] = true;
}

static bool on_cell(void *context, const struct page_cell *cell)
{
    struct salvage *s = context;
    struct page_value v[PAGE_COLUMNS_MAX];
    enum kiln_code rc = KILN_OK;
    if (!is_record(cell) && !is_system(cell) && !is_tally(cell))
        return true;
    buffer_clear(&s->record);
    if (!page_scan_read(s->scan, cell, &s->record, v))
        rc = is_tally(cell) ? KILN_OK : KILN_CORRUPT;
    else if (is_tally(cell))
        note_tally(s, cell->id, v);
    else
        rc = is_record(cell) ? save_record(s, v, &s->failure) : save_system(s, v, &s->failure);
    s->refused += rc == KILN_CORRUPT;
    return s->failure.code == KILN_OK;
}

static enum kiln_code copy_content(int from, int to, const char *path, struct kiln_err *err)
{
    KILN_AUTO(mem) uint8_t *step = malloc(COPY_STEP);
    if (!step)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot read '%s': out of memory", path);
    enum kiln_code rc = KILN_OK;
    for (off_t at = 0; !rc;) {
        ssize_t got = pread(from, step, COPY_STEP, at);
        if (got < 0)
            return kiln_fail_errno(err, errno, "cannot read '%s'", path);
        if (got == 0)
            break;
        rc = fs_write_all(to, bytes_of(step, (size_t)got), err);
        at += got;
    }
    return rc;
}

/* Copies the log's readable pages into the copy of the database. If the log is damaged, does not
 * fail, but sets |s|->log_lost. */
static enum kiln_code add_log(struct salvage *s, struct kiln_err *err)
{
    const char *directory = s->owner->directory;
    KILN_AUTO(mem) char *log = NULL;
    KILN_AUTO(mem) char *whole = NULL;
    if (asprintf(&log, "%s/" LOG_NAME, directory) < 0)
        log = NULL;
    if (asprintf(&whole, "%s/" TUNING_FILE_WHOLE, directory) < 0)
        whole = NULL;
    if (!log || !whole)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot read '%s/" LOG_NAME "': out of memory",
                         directory);
    struct log_state state = { 0 };
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = log_inspect(log, &state, &why);
    if (!rc)
        rc = log_apply(log, whole, &why);
    s->log_lost = rc || state.lost > 0;
    if (rc && rc != KILN_CORRUPT)
        *err = why;
    return rc == KILN_CORRUPT ? KILN_OK : rc;
}

static enum kiln_code make_whole(struct salvage *s, struct kiln_err *err)
{
    const struct tuning_db *db = s->owner;
    KILN_AUTO(fd) int from = openat(db->home.fd, TUNING_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    KILN_AUTO(fd)
    int to = openat(db->home.fd, TUNING_FILE_WHOLE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (from < 0 || to < 0)
        return kiln_fail_errno(err, errno, "cannot copy '%s' to recover it", db->path);
    enum kiln_code rc = copy_content(from, to, db->path, err);
    return rc ? rc : add_log(s, err);
}

static enum kiln_code open_scan(struct salvage *s, int *ret_fd, struct kiln_err *err)
{
    const struct tuning_db *db = s->owner;
    struct stat log;
    bool has_log = fstatat(db->home.fd, LOG_NAME, &log, AT_SYMLINK_NOFOLLOW) == 0 && log.st_size;
    enum kiln_code rc = has_log ? make_whole(s, err) : KILN_OK;
    if (rc)
        return rc;
    int fd = openat(db->home.fd, has_log ? TUNING_FILE_WHOLE : TUNING_FILE,
                    O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s' to recover it", db->path);
    *ret_fd = fd;
    rc = page_scan_open(fd, &s->scan, err);
    return rc == KILN_CORRUPT ? KILN_OK : rc;
}

static enum kiln_code write_rows(struct salvage *s, uint64_t saved[3], struct kiln_err *err)
{
    enum kiln_code rc = transaction_begin(&s->transaction, s->to, err);
    if (rc)
        return rc;
    if (s->scan)
        page_scan_each(s->scan, on_cell, s);
    if (s->failure.code) {
        *err = s->failure;
        return err->code;
    }
    rc = tuning_number(s->to, TUNING_RECORD_COUNT, &saved[TUNING_TALLY_RECORDS], err);
    if (!rc)
        rc = tuning_number(s->to, TUNING_SYSTEM_COUNT, &saved[TUNING_TALLY_SYSTEMS], err);
    for (int tally = TUNING_TALLY_RECORDS; !rc && tally <= TUNING_TALLY_SYSTEMS; tally++)
        rc = tuning_tally_add(s->to, (enum tuning_tally)tally, (int64_t)saved[tally], err);
    return rc ? rc : transaction_commit(&s->transaction, err);
}

/* Counts saved and lost rows. If the list of freed pages is damaged, |saved| may include old rows
 * on freed pages, and so exceed the number that the file states. */
static void count_saved(const struct salvage *s, const uint64_t saved[3],
                        struct tuning_salvage *result)
{
    uint64_t missing = 0;
    result->lost_unknown = s->log_lost || s->found_twice;
    for (int tally = TUNING_TALLY_RECORDS; tally <= TUNING_TALLY_SYSTEMS; tally++) {
        result->saved += saved[tally];
        if (!s->expected_known[tally] || saved[tally] > s->expected[tally])
            result->lost_unknown = true;
        else
            missing += s->expected[tally] - saved[tally];
    }
    result->lost = result->lost_unknown && s->refused > missing ? s->refused : missing;
}

static enum kiln_code make_new(struct salvage *s, struct tuning_salvage *result,
                               struct kiln_err *err)
{
    const struct tuning_db *db = s->owner;
    uint64_t saved[3] = { 0 };
    db_directory_remove(&db->home, TUNING_FILE_NEW);
    enum kiln_code rc = tuning_file_open(db, TUNING_FILE_NEW, false, &s->to, err);
    if (!rc)
        rc = write_rows(s, saved, err);
    if (!rc)
        rc = tuning_file_finish(db, TUNING_FILE_NEW, KILN_TAKE(s->to), err);
    if (!rc)
        count_saved(s, saved, result);
    return rc;
}

static enum kiln_code rename_in(const struct tuning_db *db, const char *from, const char *to,
                                struct kiln_err *err)
{
    if (renameat(db->home.fd, from, db->home.fd, to) != 0)
        return kiln_fail_errno(err, errno, "cannot move '%s/%s' into place", db->directory, from);
    return KILN_OK;
}

/* Puts the new file in place. If kilnd is killed before the damaged file was moved, its next
 * start salvages again. If kilnd is killed later, its next start uses the new file, which is
 * complete. */
static enum kiln_code swap_files(const struct tuning_db *db, char aside[96], struct kiln_err *err)
{
    enum kiln_code rc = rename_in(db, TUNING_FILE_NEW, TUNING_FILE_SALVAGED, err);
    if (!rc)
        rc = db_directory_sync(&db->home, err);
    if (!rc)
        rc = db_directory_move_aside(&db->home, TUNING_FILE, aside, err);
    if (!rc)
        rc = rename_in(db, TUNING_FILE_SALVAGED, TUNING_FILE, err);
    return rc ? rc : db_directory_sync(&db->home, err);
}

static void report_salvage(const struct tuning_db *db, const char *why, const char *aside,
                           struct tuning_salvage *result)
{
    snprintf(result->notice, sizeof(result->notice),
             "the tuning database was damaged (%.160s) and moved to '%.180s/%.60s': %llu records "
             "recovered, %llu%s lost",
             why, db->directory, aside, (unsigned long long)result->saved,
             (unsigned long long)result->lost, result->lost_unknown ? " or more" : "");
    for (char *at = result->notice; *at; at++) /* integrity checks report several lines */
        *at = (unsigned char)*at < ' ' ? ' ' : *at;
}

enum kiln_code tuning_salvage(struct tuning_db *db, const char *why,
                              struct tuning_salvage *ret_salvage, struct kiln_err *err)
{
    SALVAGE_AUTO struct salvage s = { .owner = db };
    KILN_AUTO(fd) int fd = -1;
    struct tuning_salvage result = { 0 };
    char aside[96];
    buffer_init(&s.record, ROW_MAX);
    db_directory_remove(&db->home, TUNING_FILE_WHOLE);
    enum kiln_code rc = open_scan(&s, &fd, err);
    if (!rc)
        rc = make_new(&s, &result, err);
    db_directory_remove(&db->home, TUNING_FILE_WHOLE);
    if (!rc)
        rc = swap_files(db, aside, err);
    if (rc)
        return kiln_while(err, "recovering '%s', which is damaged", db->path);
    report_salvage(db, why, aside, &result);
    *ret_salvage = result;
    return KILN_OK;
}
