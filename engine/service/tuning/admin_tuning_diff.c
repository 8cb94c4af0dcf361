/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/uploads.h"
#include "engine/service/tuning/tuning_query.h"
#include "engine/service/tuning/tuning_view.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct admin_member diff_members[] = {
    { "kind", MEMBER_TEXT },   { "database_id", MEMBER_TEXT }, { "backend", MEMBER_TEXT },
    { "a_tier", MEMBER_TEXT }, { "b_tier", MEMBER_TEXT },      { "a_name", MEMBER_TEXT },
    { "b_name", MEMBER_TEXT }, { "uid", MEMBER_COUNT },        { 0 },
};

struct diff {
    enum tuning_kind kind;
    char database_id[DATABASE_ID_MAX], backend[TUNING_BACKEND_TEXT];
    enum tuning_tier tiers[2]; /* TUNING_TIER_NONE: this side is a file */
    uint32_t uid;
    char paths[2][512]; /* "": no file, or a file that has not arrived yet */
    const char *names[2];
    struct tuning_progress *progress;
    uint64_t same, different, only[2];
    struct tuning_view sides[2];
    unsigned gathered;
    uint64_t records[2];
    uint64_t charged;
};

static void diff_done(struct diff *d)
{
    tuning_view_done(&d->sides[0]);
    tuning_view_done(&d->sides[1]);
}

static enum kiln_code read_sides(const struct json *q, struct diff *d, struct kiln_err *err)
{
    static const char *const tiers[] = { "a_tier", "b_tier" };
    static const char *const names[] = { "a_name", "b_name" };
    for (int i = 0; i < 2; i++) {
        d->names[i] = json_get_text(q, names[i], NULL);
        if (tuning_tier_of_question(q, tiers[i], TUNING_TIER_NONE, &d->tiers[i], err))
            return err->code;
        if ((d->tiers[i] == TUNING_TIER_NONE) == (d->names[i] == NULL))
            return kiln_fail(err, KILN_INVALID, "give either '%s' or '%s' with a file", tiers[i],
                             names[i]);
    }
    return KILN_OK;
}

static enum kiln_code read_whose(const struct json *q, uid_t uid, enum role role, struct diff *d,
                                 struct kiln_err *err)
{
    uint64_t whose = json_get_u64(q, "uid", uid);
    d->uid = (uint32_t)whose;
    if (whose >= TUNING_NOBODY)
        return kiln_fail(err, KILN_INVALID, "there is no user %llu", (unsigned long long)whose);
    if (whose != uid && role != ROLE_ADMIN)
        return kiln_fail(err, KILN_DENIED, "only an administrator may see another user's records");
    return KILN_OK;
}

static enum kiln_code read_diff(const struct json *q, uid_t uid, enum role role, struct diff *d,
                                struct kiln_err *err)
{
    bool has_kind = false;
    enum kiln_code rc = tuning_kind_of_question(q, &d->kind, &has_kind, err);
    if (!rc)
        rc = tuning_database_id_of_question(q, d->database_id, err);
    if (!rc && (!has_kind || !d->database_id[0]))
        rc = kiln_fail(err, KILN_INVALID,
                       "the request names no records: give their kind and their database id");
    if (!rc)
        rc = tuning_backend_take(d->kind, d->database_id,
                                 bytes_of_text(json_get_text(q, "backend", "")), d->backend, err);
    if (!rc)
        rc = read_sides(q, d, err);
    return rc ? rc : read_whose(q, uid, role, d, err);
}

struct difference {
    struct bytes key, solver;
    const char *what;  /* "only a", "only b", or the name of the part that differs */
    struct bytes a, b; /* empty: this side has no such record or entry */
};

static void report_difference(struct diff *d, const struct difference *x)
{
    struct json *j = json_object();
    json_set_bytes(j, "key", x->key);
    if (x->solver.size > 0)
        json_set_bytes(j, "solver", x->solver);
    json_set_text(j, "what", x->what);
    if (x->a.size > 0)
        tuning_progress_set_value(j, "a", x->a);
    if (x->b.size > 0)
        tuning_progress_set_value(j, "b", x->b);
    tuning_progress_add(d->progress, "differences", j);
}

struct entries {
    struct tuning_entry all[TUNING_ENTRIES_MAX];
    const struct tuning_entry *sorted[TUNING_ENTRIES_MAX];
    size_t count;
};

static int by_id(const void *a, const void *b)
{
    const struct tuning_entry *const *x = a, *const *y = b;
    return bytes_compare((*x)->id, (*y)->id);
}

static void read_entries(enum tuning_kind kind, struct bytes value, struct entries *ret_entries)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    size_t count = 0;
    while (count < TUNING_ENTRIES_MAX &&
           tuning_entry_next(kind, &value, &ret_entries->all[count], &ignored) == KILN_OK) {
        ret_entries->sorted[count] = &ret_entries->all[count];
        count++;
    }
    ret_entries->count = count;
    qsort(ret_entries->sorted, count, sizeof(ret_entries->sorted[0]), by_id);
}

static const struct tuning_entry *find_entry(const struct entries *entries, struct bytes id)
{
    const struct tuning_entry wanted = { .id = id }, *key = &wanted;
    const struct tuning_entry *const *found =
        bsearch(&key, entries->sorted, entries->count, sizeof(entries->sorted[0]), by_id);
    return found ? *found : NULL;
}

static const char *what_differs(enum tuning_kind kind, const struct tuning_entry *a,
                                const struct tuning_entry *b)
{
    if (kind == TUNING_PERF)
        return "params";
    if (!bytes_equal(a->solver, b->solver))
        return "solver";
    if (!bytes_equal(a->algorithm, b->algorithm))
        return "algorithm";
    if (a->time_ms < b->time_ms || a->time_ms > b->time_ms)
        return "time";
    return a->workspace != b->workspace ? "workspace" : "text";
}

/* Reports the entries of |a| that |b| lacks, or has with other values. If |is_second|, |a| and |b|
 * are swapped: reports only entries that |b| lacks, because the others were reported before. */
static void compare_entries(struct diff *d, struct bytes key, const struct entries *a,
                            const struct entries *b, bool is_second)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct tuning_entry *mine = &a->all[i], *theirs = find_entry(b, mine->id);
        struct difference x = { .key = key, .solver = mine->solver };
        if (theirs && (is_second || bytes_equal(mine->values, theirs->values)))
            continue;
        *(is_second ? &x.b : &x.a) = mine->values;
        if (theirs)
            x.b = theirs->values;
        x.what = theirs ? what_differs(d->kind, mine, theirs) : is_second ? "only b" : "only a";
        report_difference(d, &x);
    }
}

static void compare_records(struct diff *d, const struct tuning_view_record *a,
                            const struct tuning_view_record *b)
{
    if (bytes_equal(a->value, b->value)) {
        d->same++;
        return;
    }
    struct entries of_a, of_b;
    d->different++;
    read_entries(d->kind, a->value, &of_a);
    read_entries(d->kind, b->value, &of_b);
    compare_entries(d, a->key, &of_a, &of_b, /* is_second= */ false);
    compare_entries(d, b->key, &of_b, &of_a, /* is_second= */ true);
}

static void report_unpaired(struct diff *d, int side, const struct tuning_view_record *record)
{
    struct difference x = { .key = record->key, .what = side == 0 ? "only a" : "only b" };
    *(side == 0 ? &x.a : &x.b) = record->value;
    d->only[side]++;
    report_difference(d, &x);
}

static bool compare_next(struct diff *d)
{
    struct tuning_view *a = &d->sides[0], *b = &d->sides[1];
    struct tuning_view_record x = { 0 }, y = { 0 };
    bool has_x = tuning_view_peek(a, &x), has_y = tuning_view_peek(b, &y);
    if (!has_x && !has_y)
        return false;
    int order = !has_x ? 1 : !has_y ? -1 : bytes_compare(x.key, y.key);
    if (x.is_repeated || y.is_repeated)
        order = x.is_repeated ? -1 : 1;
    else if (order < 0)
        report_unpaired(d, 0, &x);
    else if (order > 0)
        report_unpaired(d, 1, &y);
    else
        compare_records(d, &x, &y);
    d->records[0] += order <= 0 && !x.is_repeated;
    d->records[1] += order >= 0 && !y.is_repeated;
    if (order <= 0)
        tuning_view_pop(a);
    if (order >= 0)
        tuning_view_pop(b);
    return true;
}

static bool compare_some(struct diff *d)
{
    const uint64_t end_ns = clock_monotonic_ns() + TUNING_STEP_NS;
    while (compare_next(d)) {
        if (clock_monotonic_ns() >= end_ns)
            return true;
    }
    return false;
}

static enum kiln_code gather_records(struct diff *d, struct tuning *tuning, struct kiln_err *err)
{
    const unsigned index = d->gathered;
    struct tuning_view *side = &d->sides[index];
    const struct tuning_view_source from = { .tier = d->tiers[index],
                                             .uid = d->uid,
                                             .kind = d->kind,
                                             .database_id = d->database_id,
                                             .backend = d->backend,
                                             .path = d->paths[index],
                                             .name = d->names[index] };
    bool more = false;
    if (!side->has_begun)
        tuning_progress_set_stage(d->progress, "reading", index, 2);
    side->progress = d->progress;
    enum kiln_code rc = tuning_view_step(side, tuning, &from, &more, err);
    d->gathered += !more;
    return rc;
}

static enum kiln_code work_some(struct diff *d, struct tuning *tuning, bool *ret_more,
                                struct kiln_err *err)
{
    *ret_more = true;
    if (d->gathered < 2)
        return gather_records(d, tuning, err);
    tuning_progress_set_stage(d->progress, "comparing", d->records[0] + d->records[1],
                              d->sides[0].records.count + d->sides[1].records.count);
    *ret_more = compare_some(d);
    return KILN_OK;
}

/* Charges the memory by which the sides have grown, except what charge_file has charged. */
static enum kiln_code charge_sides(struct diff *d, struct deferred *request, struct kiln_err *err)
{
    uint64_t bytes = tuning_view_bytes(&d->sides[0]) + tuning_view_bytes(&d->sides[1]);
    if (bytes <= d->charged)
        return KILN_OK;
    if (deferred_charge(request, bytes - d->charged, err))
        return kiln_while(err, "comparing records that take %llu bytes", (unsigned long long)bytes);
    d->charged = bytes;
    return KILN_OK;
}

static void answer_diff(const struct diff *d, struct json *answer)
{
    json_set_u64(answer, "a_records", d->records[0]);
    json_set_u64(answer, "b_records", d->records[1]);
    json_set_u64(answer, "same", d->same);
    json_set_u64(answer, "different", d->different);
    json_set_u64(answer, "only_a", d->only[0]);
    json_set_u64(answer, "only_b", d->only[1]);
}

static enum kiln_code check_tiers(struct tuning_query *query, struct kiln_err *err)
{
    struct diff *d = query->state;
    d->progress = query->progress;
    return read_diff(query->base.question, query->base.uid, query->base.role, d, err);
}

static enum kiln_code begin_tiers(struct tuning_query *query, struct tuning *tuning,
                                  struct kiln_err *err)
{
    (void)tuning;
    return charge_sides(query->state, &query->base, err);
}

static enum kiln_code work_tiers(struct tuning_query *query, struct tuning *tuning,
                                 struct kiln_err *err)
{
    return work_some(query->state, tuning, &query->change.more, err);
}

static void finish_tiers(struct tuning_query *query)
{
    answer_diff(query->state, query->base.answer);
}

static void tiers_done(void *state) { diff_done(state); }

static const struct tuning_query_kind tiers_kind = {
    .members = diff_members,
    .check = check_tiers,
    .begin = begin_tiers,
    .work = work_tiers,
    .finish = finish_tiers,
    .state_done = tiers_done,
    .state_size = sizeof(struct diff),
};

struct file_diff {
    struct tuning_change change;
    struct upload *upload;
    struct tuning_progress *progress;
    struct diff diff;
};

static struct file_diff *file_diff_of(struct tuning_change *change)
{
    return LIST_ENTRY(change, struct file_diff, change);
}

static void file_diff_destroy(void *state)
{
    struct file_diff *f = state;
    for (int i = 0; i < 2; i++) {
        if (f->diff.paths[i][0])
            unlink(f->diff.paths[i]);
    }
    diff_done(&f->diff);
    tuning_progress_destroy(f->progress);
    free(f);
}

static enum kiln_code begin_files(struct tuning_change *change, struct tuning *tuning,
                                  struct kiln_err *err)
{
    struct file_diff *f = file_diff_of(change);
    (void)tuning;
    if (!f->upload->base.caller)
        return err->code = KILN_CANCELLED;
    return charge_sides(&f->diff, &f->upload->base, err);
}

static enum kiln_code work_files(struct tuning_change *change, struct tuning *tuning,
                                 struct kiln_err *err)
{
    return work_some(&file_diff_of(change)->diff, tuning, &change->more, err);
}

static bool send_files_progress(struct tuning_change *change)
{
    struct file_diff *f = file_diff_of(change);
    return tuning_send_progress(&f->upload->base, f->progress);
}

static void files_ended(struct tuning_change *change)
{
    struct file_diff *f = file_diff_of(change);
    struct upload *u = f->upload;
    answer_diff(&f->diff, u->base.answer);
    tuning_set_count(u->base.answer, "left_out", tuning_progress_left_out(f->progress));
    upload_end(u);
}

static const struct tuning_change_kind change_kind = { .begin = begin_files,
                                                       .work = work_files,
                                                       .send_progress = send_files_progress,
                                                       .ended = files_ended };

static enum kiln_code file_diff_create(struct upload *u, struct kiln_err *err)
{
    struct file_diff *f = calloc(1, sizeof(*f));
    if (!f)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
    u->state = f;
    f->upload = u;
    f->change.kind = &change_kind;
    f->change.request = &u->base;
    enum kiln_code rc = tuning_progress_create(&f->progress, err);
    if (rc)
        return rc;
    f->diff.progress = f->progress;
    f->change.events = tuning_progress_events(f->progress);
    return read_diff(u->base.question, u->base.uid, u->base.role, &f->diff, err);
}

/* Charges twice the file's size, because keys and values are copied and then sorted. */
static enum kiln_code charge_file(struct upload *u, struct diff *d, struct kiln_err *err)
{
    const struct transfer_result *o = &u->transfer.result;
    if (deferred_charge(&u->base, 2 * o->size, err))
        return kiln_while(err, "comparing '%.100s', whose %llu bytes count twice", o->name,
                          (unsigned long long)o->size);
    d->charged += 2 * o->size;
    return KILN_OK;
}

static enum kiln_code take_file(struct upload *u, bool *ret_more, struct kiln_err *err)
{
    enum kiln_code rc = u->state ? KILN_OK : file_diff_create(u, err);
    struct file_diff *f = u->state;
    if (!rc)
        rc = charge_file(u, &f->diff, err);
    if (rc)
        return rc;
    struct diff *d = &f->diff;
    int here = d->tiers[0] == TUNING_TIER_NONE && !d->paths[0][0] ? 0 : 1;
    memcpy(d->paths[here], u->transfer.result.path, sizeof(d->paths[here]));
    upload_taken(u);
    *ret_more = here == 0 && d->tiers[1] == TUNING_TIER_NONE;
    if (*ret_more)
        upload_next(u, 1, d->names[1]);
    return KILN_OK;
}

static void pass_file(struct upload *u)
{
    struct kiln_err why = KILN_ERR_INIT;
    bool more = false;
    enum kiln_code rc = take_file(u, &more, &why);
    if (!rc && more)
        return;
    /* If tuning_queue_add succeeds, the change may already have ended and freed |u|. */
    if (!rc) {
        struct file_diff *f = u->state;
        rc = tuning_queue_add(&f->change, &why);
    }
    if (rc) {
        u->base.rc = rc;
        u->base.err = why;
        upload_end(u);
    }
}

static const struct upload_kind files_kind = {
    .members = diff_members,
    .tier = TRANSFER_TUNING,
    .of_user = true,
    .unchecked = true,
    .size_limit = TUNING_FILE_MAX,
    .pass = pass_file,
    .state_destroy = file_diff_destroy,
};

static enum kiln_code check_files(const struct diff *d, const struct caller *caller,
                                  struct kiln_err *err)
{
    unsigned wanted = (d->tiers[0] == TUNING_TIER_NONE) + (d->tiers[1] == TUNING_TIER_NONE);
    if (caller->file_count != wanted)
        return kiln_fail(err, KILN_INVALID, "%u files arrived, but the request names %u",
                         caller->file_count, wanted);
    return KILN_OK;
}

enum kiln_code handle_tuning_diff(struct engine *e, struct caller *caller,
                                  const struct frame_header *header, struct bytes body,
                                  struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    struct diff diff = { .kind = TUNING_FIND };
    enum kiln_code rc = admin_read(header, body, diff_members, &question, err);
    if (!rc)
        rc = read_diff(question, caller->uid, caller->role, &diff, err);
    if (!rc)
        rc = check_files(&diff, caller, err);
    if (!rc)
        rc = tuning_ready(e, err);
    if (rc)
        return rc;
    if (caller->file_count == 0)
        return tuning_query_run(e, &(struct request){ caller, header, body }, &tiers_kind, err);
    json_set_text(question, "name", diff.names[0] ? diff.names[0] : diff.names[1]);
    return upload_begin(e, &(struct request){ caller, header, body }, &files_kind,
                        KILN_TAKE(question), err);
}
