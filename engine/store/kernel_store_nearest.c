/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include <string.h>

/* How many kernels are scored. If there are kernels of the same program, the newest
 * SAME_PROGRAM_MAX of that program are scored. Otherwise, the newest OTHERS_MAX of all kernels are
 * scored, which takes about 10 ms. */
#define SAME_PROGRAM_MAX 4096u
#define OTHERS_MAX 1024u
/* Score of a field that is equal. The scores of all fields that are only similar add up to less. */
#define AGREES 1000
#define LIKE_MAX 200

struct candidate {
    uint64_t id;
    int score;
};

struct search {
    const struct kernel_record *wanted;
    struct candidate best[KERNEL_NEAREST_MAX];
    size_t count;
};

/* Scores how much of two texts is a common beginning and end, up to LIKE_MAX. Example: "-O2 -g" and
 * "-O3 -g" have 2 + 3 of 6 characters in common, which gives 166. */
static int likeness(struct bytes a, struct bytes b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    size_t longer = a.size < b.size ? b.size : a.size;
    size_t head = 0, tail = 0;
    while (head < shorter && a.data[head] == b.data[head])
        head++;
    while (tail < shorter - head && a.data[a.size - 1 - tail] == b.data[b.size - 1 - tail])
        tail++;
    return longer ? (int)((head + tail) * LIKE_MAX / longer) : 0;
}

static int score_bytes(struct bytes wanted, struct bytes there)
{
    if (wanted.size == 0)
        return 0;
    return bytes_equal(wanted, there) ? AGREES : likeness(wanted, there);
}

static int score_text(const char *wanted, const char *there)
{
    return score_bytes(bytes_of_text(wanted ? wanted : ""), bytes_of_text(there));
}

static int score_digest(const struct digest *wanted, struct bytes there)
{
    return digest_is_known(wanted) && bytes_equal(digest_view(wanted), there) ? AGREES : 0;
}

static int score_target(const char *wanted, const char *there)
{
    if (!wanted || !*wanted)
        return 0;
    size_t a = strcspn(wanted, ":"), b = strcspn(there, ":");
    int arch = score_bytes(bytes_of(wanted, a), bytes_of(there, b));
    int features = strcmp(wanted + a, there + b) == 0 ? AGREES : 0;
    return arch + features;
}

static int score_of(const struct query *q, const struct kernel_record *wanted)
{
    return score_text(wanted->program, query_text(q, 1)) +
           score_target(wanted->target, query_text(q, 2)) +
           score_text(wanted->options, query_text(q, 3)) +
           score_digest(&wanted->source_id, query_bytes(q, 4)) +
           score_digest(&wanted->headers_id, query_bytes(q, 5)) +
           score_text(wanted->toolchain, query_text(q, 6)) +
           score_digest(&wanted->toolchain_id, query_bytes(q, 7)) +
           score_text(wanted->database_id, query_text(q, 8));
}

/* Keeps the best candidates. Newer kernels are added first; of several with the same score, the
 * first ones are kept. */
static void add_candidate(struct search *s, struct candidate c)
{
    size_t at = s->count;
    while (at > 0 && s->best[at - 1].score < c.score)
        at--;
    if (at == KERNEL_NEAREST_MAX)
        return;
    size_t kept = s->count < KERNEL_NEAREST_MAX ? s->count : KERNEL_NEAREST_MAX - 1;
    memmove(&s->best[at + 1], &s->best[at], (kept - at) * sizeof(c));
    s->best[at] = c;
    s->count = kept + 1;
}

static enum kiln_code scan_kernels(struct db *db, enum kernel_statement statement,
                                   unsigned count_max, struct search *s, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, statement);
    query_bind_text(&q, 1, s->wanted->program);
    query_bind_u64(&q, 2, s->wanted->uid);
    query_bind_u64(&q, 3, count_max);
    query_bind_u64(&q, 4, s->wanted->kind);
    enum kiln_code rc = KILN_OK;
    while (query_next(&q, &rc, err))
        add_candidate(
            s, (struct candidate){ .id = query_u64(&q, 0), .score = score_of(&q, s->wanted) });
    return rc;
}

static enum kiln_code report_kernel(struct db *db, uint64_t id,
                                    void (*each)(void *, const struct kernel_record *),
                                    void *context, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, KERNEL_SHOW_ID);
    query_bind_u64(&q, 1, id);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (rc || !row)
        return rc;
    struct kernel_record record = store_record(&q);
    each(context, &record);
    return KILN_OK;
}

enum kiln_code kernel_store_nearest(struct kernel_store *store, const struct kernel_record *wanted,
                                    void (*each)(void *, const struct kernel_record *),
                                    void *context, struct kiln_err *err)
{
    struct search s = { .wanted = wanted };
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc ? rc : KILN_NOT_FOUND;
    rc = scan_kernels(reader->db, KERNEL_NEAR_PROGRAM, SAME_PROGRAM_MAX, &s, err);
    if (!rc && s.count == 0)
        rc = scan_kernels(reader->db, KERNEL_NEAR_ANY, OTHERS_MAX, &s, err);
    for (size_t i = 0; !rc && i < s.count; i++)
        rc = report_kernel(reader->db, s.best[i].id, each, context, err);
    if (!rc && s.count == 0)
        return KILN_NOT_FOUND;
    return store_note_read(store, rc);
}
