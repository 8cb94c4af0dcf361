/* SPDX-License-Identifier: MIT */
#include "engine/package/package_kiln_parts.h"

#include "common/protocol/limits.h"
#include "engine/digest/sha256.h"

static enum kiln_code check_text(struct kpkg *kpkg, struct bytes sha256, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(kpkg->db, KPKG_TEXT);
    query_bind_bytes(&q, 1, sha256);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (rc)
        return rc;
    if (!row)
        return kiln_fail(err, KILN_CORRUPT, "a source is missing");
    const struct packed_object stored = { .codec = query_u64(&q, 0),
                                          .raw_size = query_u64(&q, 1),
                                          .stored = query_bytes(&q, 2) };
    struct bytes text = bytes_of(NULL, 0); /* codec_unpack refuses empty texts */
    if (stored.raw_size > 0)
        rc = kpkg_unpack(kpkg, &stored, &text, err);
    struct digest digest = sha256_of(text);
    if (!rc && !kpkg_is_digest(sha256, &digest))
        rc = kiln_fail(err, KILN_CORRUPT, "a source does not have its SHA-256");
    return rc;
}

static enum kiln_code check_headers(struct kpkg *kpkg, struct bytes list, struct kiln_err *err)
{
    struct reader r = reader_of(list);
    enum kiln_code rc = KILN_OK;
    while (!rc && reader_left(&r) > 0) {
        reader_sized(&r);
        struct bytes sha256 = reader_take(&r, DIGEST_SIZE);
        rc = r.failed ? kiln_fail(err, KILN_CORRUPT, "a list of headers is truncated")
                      : check_text(kpkg, sha256, err);
    }
    return rc;
}

static enum kiln_code check_row(struct kpkg *kpkg, uint64_t id, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, LIMIT_CODE_OBJECT);
    QUERY_AUTO struct query q = query_of(kpkg->db, KPKG_FIND_ID);
    query_bind_u64(&q, 1, id);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (rc || !row)
        return rc ? rc : KILN_NOT_FOUND;
    rc = kpkg_take_object(kpkg, &q, &raw, err);
    if (!rc)
        rc = check_text(kpkg, query_bytes(&q, KPKG_SOURCE), err);
    return rc ? rc : check_headers(kpkg, query_bytes(&q, KPKG_HEADERS), err);
}

enum kiln_code kpkg_check_all(void *connection, const struct package_progress *progress,
                              struct package_report *report, struct kiln_err *err)
{
    struct kpkg *kpkg = connection;
    QUERY_AUTO struct query q = query_of(kpkg->db, KPKG_IDS);
    uint64_t latest = 0;
    for (;;) {
        bool row = false;
        enum kiln_code rc = query_step(&q, &row, err);
        if (!rc && row)
            rc = kpkg_next_id(query_u64(&q, 0), &latest, err);
        if (rc || !row)
            return rc;
        struct kiln_err why = KILN_ERR_INIT;
        if (check_row(kpkg, query_u64(&q, 0), &why))
            package_report_damage(report, &why);
        else
            report->good++;
        if (progress->report &&
            !progress->report(progress->context, report->good + report->damaged, report->rows))
            return kiln_fail(err, KILN_CANCELLED, "the check was stopped");
    }
}
