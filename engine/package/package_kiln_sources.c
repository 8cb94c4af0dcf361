/* SPDX-License-Identifier: MIT */
#include "engine/package/package_kiln_parts.h"

#include "common/limits.h"
#include "common/messages.h"
#include "engine/digest/sha256.h"

/* Appends the text whose SHA-256 is |sha256|. */
static enum kiln_code take_text(struct kpkg *kpkg, struct bytes sha256, struct buffer *ret_text,
                                struct kiln_err *err)
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
    struct bytes text = bytes_of(NULL, 0); /* an empty text has no stored form */
    if (stored.raw_size > 0)
        rc = kpkg_unpack(kpkg, &stored, &text, err);
    struct digest digest = sha256_of(text);
    if (!rc && !kpkg_is_digest(sha256, &digest))
        rc = kiln_fail(err, KILN_CORRUPT, "a source does not have its SHA-256");
    if (!rc)
        buffer_put(ret_text, text.data, text.size);
    return rc;
}

/* Appends the headers of |list|, whose form is that of struct kpkg_claim. */
static enum kiln_code take_headers(struct kpkg *kpkg, struct bytes list,
                                   struct package_text *ret_text, struct kiln_err *err)
{
    struct reader r = reader_of(list);
    uint32_t count = 0;
    for (; reader_left(&r) > 0; count++) {
        struct bytes name = reader_sized(&r), sha256 = reader_take(&r, DIGEST_SIZE);
        BUFFER_AUTO struct buffer text;
        buffer_init(&text, LIMIT_CODE_OBJECT);
        enum kiln_code rc = r.failed
                                ? kiln_fail(err, KILN_CORRUPT, "a list of headers is truncated")
                                : take_text(kpkg, sha256, &text, err);
        if (rc)
            return rc;
        struct message_header header = { .name = name, .text = buffer_view(&text) };
        message_header_write(&ret_text->headers, &header);
    }
    ret_text->header_count = count;
    return KILN_OK;
}

enum kiln_code kpkg_source_of(void *connection, uint64_t id, struct package_text *text,
                              struct kiln_err *err)
{
    struct kpkg *kpkg = connection;
    QUERY_AUTO struct query q = query_of(kpkg->db, KPKG_FIND_ID);
    query_bind_u64(&q, 1, id);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc && !row)
        return KILN_NOT_FOUND;
    if (!rc)
        rc = kpkg_check_claim(&q, err);
    if (!rc)
        rc = take_text(kpkg, query_bytes(&q, KPKG_SOURCE), &text->source, err);
    if (!rc)
        rc = take_headers(kpkg, query_bytes(&q, KPKG_HEADERS), text, err);
    if (!rc && (text->source.failed || text->headers.failed))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for a source");
    return rc;
}

/* ---- checking the whole package ---- */

static enum kiln_code check_row(struct kpkg *kpkg, uint64_t id, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer raw;
    struct package_text text = { .header_count = 0 };
    buffer_init(&raw, LIMIT_CODE_OBJECT);
    buffer_init(&text.source, LIMIT_CODE_OBJECT);
    buffer_init(&text.headers, LIMIT_CODE_OBJECT);
    enum kiln_code rc = kpkg_source_of(kpkg, id, &text, err);
    buffer_done(&text.source);
    buffer_done(&text.headers);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(kpkg->db, KPKG_FIND_ID);
    query_bind_u64(&q, 1, id);
    bool row = false;
    rc = query_step(&q, &row, err);
    return rc || !row ? rc : kpkg_take_object(kpkg, &q, &raw, err);
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
