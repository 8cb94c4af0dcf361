/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_parts.h"

#include "common/base/clock.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define INDEX_SUFFIX ".kti"
#define INDEX_UNFINISHED ".XXXXXX"
#define SCRATCH_MAX (4u * TUNING_VALUE_MAX)

const char *tuning_backend(enum tuning_kind kind, const char *database_id, const char *backend)
{
    if (kind == TUNING_PERF)
        return backend && strcmp(backend, TUNING_BATCHNORM) == 0 ? TUNING_BATCHNORM : "";
    return backend && *backend ? backend : database_id_backend(bytes_of_text(database_id));
}

void scratch_init(struct scratch *scratch, enum tuning_stale stale)
{
    *scratch = (struct scratch){ .stale = stale };
    buffer_init(&scratch->fresh, SCRATCH_MAX);
    buffer_init(&scratch->joined, SCRATCH_MAX);
}

void scratch_done(struct scratch *scratch)
{
    buffer_done(&scratch->fresh);
    buffer_done(&scratch->joined);
    free(scratch->kept);
    free(scratch->joined_rows);
}

void system_slot_destroy(struct system_slot *slot)
{
    if (!slot)
        return;
    tuning_index_destroy(slot->index);
    free((char *)slot->file.database_id);
    free((char *)slot->file.backend);
    free((char *)slot->file.source);
    free((char *)slot->file.index_file);
    free(slot);
}

/* Refuses an index that is not the imported one, because it would give wrong answers. */
static enum kiln_code check_index(const struct system_slot *slot, struct kiln_err *err)
{
    struct digest digest = tuning_index_digest(slot->index);
    if (tuning_index_kind(slot->index) != slot->file.kind)
        return kiln_fail(err, KILN_CORRUPT, "the index '%s' belongs to another kind of database",
                         slot->file.index_file);
    if (!digest_equal(&digest, &slot->file.digest))
        return kiln_fail(err, KILN_CORRUPT, "the index '%s' is not the one that was imported",
                         slot->file.index_file);
    return KILN_OK;
}

static void open_index(struct tuning *t, struct system_slot *slot)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(mem) char *path = NULL;
    enum kiln_code rc = KILN_OK;
    if (asprintf(&path, "%s/%s", t->directory, slot->file.index_file) < 0) {
        path = NULL;
        rc = kiln_fail(&err, KILN_NO_MEMORY, "cannot open an index: out of memory");
    }
    if (!rc)
        rc = tuning_index_open(path, &slot->index, &err);
    if (!rc)
        rc = check_index(slot, &err);
    if (!rc)
        return;
    tuning_index_destroy(slot->index);
    slot->index = NULL;
    snprintf(slot->why, sizeof(slot->why), "%.200s: import '%.60s' again", err.text,
             slot->file.source);
}

static enum kiln_code create_slot(const struct tuning_system_file *file,
                                  struct system_slot **ret_slot, struct kiln_err *err)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    KILN_AUTO(system_slot) struct system_slot *slot = calloc(1, sizeof(*slot));
    if (!slot)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open a tuning index: out of memory");
    slot->file = *file;
    slot->file.database_id = strdup(file->database_id);
    slot->file.backend = strdup(file->backend);
    slot->file.source = strdup(file->source);
    slot->file.index_file = strdup(file->index_file);
    if (!slot->file.database_id || !slot->file.backend || !slot->file.source ||
        !slot->file.index_file)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open a tuning index: out of memory");
    if (database_id_parse(bytes_of_text(file->database_id), &slot->id, &ignored) != KILN_OK)
        slot->id = (struct database_id){ .device = "" };
    *ret_slot = KILN_TAKE(slot);
    return KILN_OK;
}

enum kiln_code system_slot_open(struct tuning *t, const struct tuning_system_file *file,
                                struct system_slot **ret_slot, struct kiln_err *err)
{
    enum kiln_code rc = create_slot(file, ret_slot, err);
    if (!rc)
        open_index(t, *ret_slot);
    return rc;
}

static enum kiln_code open_image(struct engine_item *item, enum tuning_kind kind,
                                 struct tuning_index **ret_index, struct kiln_err *err)
{
    KILN_AUTO(tuning_index) struct tuning_index *index = NULL;
    enum kiln_code rc = tuning_index_open_image(engine_item_view(item), item->name, &index, err);
    if (!rc && tuning_index_kind(index) != kind)
        rc = kiln_fail(err, KILN_CORRUPT, "its name states another kind of database");
    *ret_index = rc ? NULL : KILN_TAKE(index);
    return rc;
}

/* Opens a built-in system database. Succeeds even if its data is damaged; the slot then has no
 * index. Fails if the data is undamaged, but is not an index. */
static enum kiln_code open_built_in(struct engine_item *item, struct system_slot **ret_slot,
                                    struct kiln_err *err)
{
    KILN_AUTO(tuning_index) struct tuning_index *index = NULL;
    struct tuning_file_name name;
    enum kiln_code rc = tuning_file_name_parse(item->name, &name, err);
    if (!rc && !engine_item_is_damaged(item))
        rc = open_image(item, name.kind, &index, err);
    if (rc && (rc == KILN_INVALID || rc == KILN_NO_MEMORY || engine_item_is_as_built(item)))
        return kiln_while(err, "'%s', which is built into this program", item->name);
    struct tuning_system_file file = {
        .kind = name.kind,
        .database_id = name.database_id,
        .backend = tuning_backend(name.kind, name.database_id, name.backend),
        .source = item->name,
        .index_file = "",
    };
    if (index) {
        file.digest = tuning_index_digest(index);
        file.records = tuning_index_count(index);
        file.entries = tuning_index_entries(index);
    }
    rc = create_slot(&file, ret_slot, err);
    if (rc)
        return rc;
    (*ret_slot)->index = KILN_TAKE(index);
    (*ret_slot)->item = item;
    return KILN_OK;
}

bool system_slot_is_usable(const struct system_slot *slot)
{
    return slot->index && (!slot->item || engine_item_use(slot->item));
}

static struct system_slot *find_slot(const struct tuning *t, const struct system_slot *like,
                                     bool is_built_in)
{
    for (unsigned i = 0; i < t->system_count; i++) {
        struct system_slot *slot = t->systems[i];
        if (is_built_in == (slot->item != NULL) && slot->file.kind == like->file.kind &&
            strcmp(slot->file.database_id, like->file.database_id) == 0 &&
            strcmp(slot->file.backend, like->file.backend) == 0)
            return slot;
    }
    return NULL;
}

struct system_slot *system_slot_find_imported(const struct tuning *t, enum tuning_kind kind,
                                              const char *database_id, const char *backend)
{
    const struct system_slot like = {
        .file = { .kind = kind, .database_id = database_id, .backend = backend }
    };
    return find_slot(t, &like, false);
}

struct system_slot *system_slot_find(const struct tuning *t, enum tuning_kind kind,
                                     const char *database_id, const char *backend)
{
    const struct system_slot like = {
        .file = { .kind = kind, .database_id = database_id, .backend = backend }
    };
    struct system_slot *imported = find_slot(t, &like, false);
    return imported ? imported : find_slot(t, &like, true);
}

/* Returns whether an imported database replaces the built-in one of |slot|. */
static bool is_replaced(const struct tuning *t, const struct system_slot *slot)
{
    return slot->item && find_slot(t, slot, false);
}

static unsigned unit_distance(unsigned a, unsigned b) { return a > b ? a - b : b - a; }

/* Returns the slot with the nearest number of compute units (MIOpen's rule). */
static struct system_slot *nearest_slot(const struct tuning *t, enum tuning_kind kind,
                                        const char *database_id, const char *backend)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct database_id wanted;
    struct system_slot *best = NULL;
    unsigned best_distance = 0;
    if (database_id_parse(bytes_of_text(database_id), &wanted, &ignored) != KILN_OK)
        return NULL;
    for (unsigned i = 0; i < t->system_count; i++) {
        struct system_slot *slot = t->systems[i];
        if (!slot->index || (slot->item && engine_item_is_damaged(slot->item)) ||
            slot->file.kind != kind || strcmp(slot->file.backend, backend) != 0 ||
            strcmp(slot->id.device, wanted.device) != 0 || is_replaced(t, slot))
            continue;
        unsigned apart = unit_distance(slot->id.compute_units, wanted.compute_units);
        if (!best || apart < best_distance) {
            best = slot;
            best_distance = apart;
        }
    }
    return best;
}

struct system_slot *system_slot_for(struct tuning *t, enum tuning_kind kind,
                                    const char *database_id, const char *backend)
{
    struct system_slot *slot = system_slot_find(t, kind, database_id, backend);
    if (!slot)
        slot = nearest_slot(t, kind, database_id, backend);
    return slot && system_slot_is_usable(slot) ? slot : NULL;
}

struct load {
    struct tuning *tuning;
    enum kiln_code rc;
    struct kiln_err *err;
};

static bool load_system(void *context, const struct tuning_system_file *file)
{
    struct load *load = context;
    struct tuning *t = load->tuning;
    if (t->system_count == SYSTEMS_MAX)
        load->rc = kiln_fail(load->err, KILN_CORRUPT,
                             "more than %u system databases are listed: the others are ignored",
                             SYSTEMS_MAX);
    else
        load->rc = system_slot_open(t, file, &t->systems[t->system_count], load->err);
    t->system_count += load->rc == KILN_OK;
    return load->rc == KILN_OK;
}

static bool load_record(void *context, const struct tuning_place *place,
                        const struct tuning_row *rows, size_t count)
{
    struct load *load = context;
    load->rc = tuning_table_put(load->tuning->table, place, rows, count, load->err);
    return load->rc == KILN_OK;
}

static bool is_listed(const struct tuning *t, const char *name)
{
    for (unsigned i = 0; i < t->system_count; i++) {
        if (strcmp(t->systems[i]->file.index_file, name) == 0)
            return true;
    }
    return false;
}

static bool is_index_name(const char *name)
{
    size_t size = strlen(name), suffix = strlen(INDEX_SUFFIX), tail = strlen(INDEX_UNFINISHED);
    if (size > suffix && strcmp(name + size - suffix, INDEX_SUFFIX) == 0)
        return true;
    return size > suffix + tail && name[size - tail] == INDEX_UNFINISHED[0] &&
           strncmp(name + size - tail - suffix, INDEX_SUFFIX, suffix) == 0;
}

static void remove_unlisted(const struct tuning *t)
{
    DIR *dir = opendir(t->directory);
    if (!dir)
        return;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (is_index_name(e->d_name) && !is_listed(t, e->d_name))
            unlinkat(dirfd(dir), e->d_name, 0);
    }
    closedir(dir);
}

static enum kiln_code load_all(struct tuning *t, struct kiln_err *err)
{
    struct load load = { .tuning = t, .err = err };
    enum kiln_code rc = tuning_db_each_system(t->db, load_system, &load, err);
    if (!rc && !load.rc)
        rc = tuning_db_each(t->db, load_record, &load, err);
    return rc ? rc : load.rc;
}

static enum kiln_code load_built_in(struct tuning *t, const struct engine_data *data,
                                    struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; data && i < data->count && !rc; i++) {
        if (data->items[i].kind != ENGINE_ITEM_TUNING)
            continue;
        if (t->system_count == SYSTEMS_MAX)
            return kiln_fail(err, KILN_FULL, "more than %u system databases are built in",
                             SYSTEMS_MAX);
        rc = open_built_in(&data->items[i], &t->systems[t->system_count], err);
        t->system_count += rc == KILN_OK;
    }
    return rc;
}

static enum kiln_code open_directory(struct tuning *t, const struct tuning_options *options,
                                     char ret_notice[512], struct kiln_err *err)
{
    struct tuning_salvage salvage = { 0 };
    struct tuning_db_options db = { .directory = options->directory,
                                    .records_per_uid = options->records_per_uid,
                                    .bytes_per_uid = options->bytes_per_uid,
                                    .allow_network_fs = options->allow_network_fs };
    enum kiln_code rc = tuning_db_open(&db, &t->db, &salvage, err);
    if (!rc)
        rc = load_all(t, err);
    if (rc)
        return rc;
    remove_unlisted(t);
    memcpy(ret_notice, salvage.notice, sizeof(salvage.notice));
    return KILN_OK;
}

enum kiln_code tuning_open(const struct tuning_options *options, struct tuning **ret_tuning,
                           char ret_notice[512], struct kiln_err *err)
{
    KILN_AUTO(tuning) struct tuning *t = calloc(1, sizeof(*t));
    if (!t || (options->directory && !(t->directory = strdup(options->directory))))
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the tuning databases: out of memory");
    scratch_init(&t->scratch, options->stale);
    t->without_user = options->without_user;
    t->without_system = options->without_system;
    t->records_per_uid = options->records_per_uid;
    t->bytes_per_uid = options->bytes_per_uid;
    t->stale = options->stale;
    t->changed = options->changed;
    t->context = options->context;
    ret_notice[0] = '\0';
    enum kiln_code rc = tuning_table_create(&t->table, err);
    if (!rc && t->directory)
        rc = open_directory(t, options, ret_notice, err);
    if (!rc)
        rc = load_built_in(t, options->data, err);
    if (rc)
        return kiln_while(err, "opening the tuning databases");
    *ret_tuning = KILN_TAKE(t);
    return KILN_OK;
}

void tuning_set_limits(struct tuning *t, const struct tuning_options *options)
{
    t->records_per_uid = options->records_per_uid;
    t->bytes_per_uid = options->bytes_per_uid;
    t->stale = options->stale;
    t->scratch.stale = options->stale;
    if (t->db)
        tuning_db_set_limits(t->db, options->records_per_uid, options->bytes_per_uid);
}

void tuning_destroy(struct tuning *t)
{
    if (!t)
        return;
    for (unsigned i = 0; i < t->system_count; i++)
        system_slot_destroy(t->systems[i]);
    tuning_table_destroy(t->table);
    tuning_db_destroy(t->db);
    scratch_done(&t->scratch);
    free(t->directory);
    free(t);
}

static bool is_wanted(const char *wanted, const char *text)
{
    return !wanted || !*wanted || strcmp(wanted, text) == 0;
}

static bool is_older(const struct tuning_row *row, uint64_t second)
{
    return row->measured.measured_at > 0 && row->measured.measured_at < second;
}

bool tuning_row_entry(const struct tuning_row *row, struct tuning_entry *ret_entry)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    return tuning_entry_of(row->place.kind, row->id, row->values, ret_entry, &ignored) == KILN_OK;
}

/* Returns whether |row| is an entry of |solver|. In FindDb's old dialect, the solver is not the id
 * of an entry, but one of its values. */
static bool is_solvers(const struct tuning_row *row, const char *solver)
{
    struct tuning_entry entry;
    if (bytes_equal_text(row->id, solver))
        return true;
    return row->place.kind == TUNING_FIND && tuning_row_entry(row, &entry) &&
           bytes_equal_text(entry.solver, solver);
}

static bool is_of_origin(const struct tuning_row *row, const char *origin)
{
    const char *library = row->measured.origin.library;
    return strncmp(library ? library : "", origin, strlen(origin)) == 0;
}

bool tuning_row_is_selected(const struct tuning_selection *s, const struct tuning_row *row)
{
    return (!s->solver || !*s->solver || is_solvers(row, s->solver)) &&
           (s->older_than == 0 || is_older(row, s->older_than)) &&
           (!s->origin || is_of_origin(row, s->origin));
}

static bool is_any_key(const struct tuning_selection *s, const struct tuning_place *place)
{
    for (size_t i = 0; i < s->key_count; i++) {
        if (s->keys[i].kind == place->kind && bytes_equal(s->keys[i].key, place->key))
            return true;
    }
    return s->key_count == 0;
}

static bool has_selected_row(const struct tuning_selection *s, const struct tuning_held *held)
{
    for (size_t i = 0; i < held->row_count; i++) {
        if (tuning_row_is_selected(s, &held->rows[i]))
            return true;
    }
    return false;
}

bool tuning_is_selected(const struct tuning_selection *s, const struct tuning_held *held)
{
    const struct tuning_place *place = &held->place;
    return (!s->tier || place->tier == s->tier) && (!s->by_kind || place->kind == s->kind) &&
           (!s->by_uid || place->tier != TUNING_TIER_USER || place->uid == s->uid) &&
           is_wanted(s->database_id, place->database_id) && is_wanted(s->backend, place->backend) &&
           (s->key.size == 0 || bytes_equal(place->key, s->key)) && is_any_key(s, place) &&
           has_selected_row(s, held);
}

static bool visit_selected(void *context, const struct tuning_held *held)
{
    const struct tuning_walk *walk = context;
    return !tuning_is_selected(walk->selection, held) || walk->each(walk->context, held);
}

void tuning_walk_step(const struct tuning *t, struct tuning_walk *walk, uint64_t end_ns)
{
    while (!walk->is_over) {
        bool go_on = tuning_table_visit(t->table, &walk->cursor, visit_selected, walk);
        walk->is_over = !go_on || walk->cursor == 0;
        if (clock_monotonic_ns() >= end_ns)
            return;
    }
}

struct ordered_walk {
    const struct tuning *tuning;
    bool (*each)(void *context, const struct tuning_held *held);
    void *context;
};

static bool visit_stored(void *context, const struct tuning_place *place,
                         const struct tuning_row *rows, size_t count)
{
    const struct ordered_walk *walk = context;
    const struct tuning_held *held = tuning_table_find(walk->tuning->table, place);
    (void)rows;
    (void)count;
    return !held || walk->each(walk->context, held);
}

enum kiln_code tuning_each_after(struct tuning *t, const struct tuning_place *after,
                                 bool (*each)(void *context, const struct tuning_held *held),
                                 void *context, struct kiln_err *err)
{
    struct ordered_walk walk = { t, each, context };
    if (!t->db)
        return kiln_fail(err, KILN_UNSUPPORTED, "this program stores no records on disk");
    return tuning_db_each_after(t->db, after, visit_stored, &walk, err);
}

void tuning_each_system(const struct tuning *t,
                        bool (*each)(void *context, const struct tuning_system *system),
                        void *context)
{
    for (unsigned i = 0; i < t->system_count; i++) {
        const struct system_slot *slot = t->systems[i];
        if (is_replaced(t, slot))
            continue;
        struct tuning_system system = { .file = &slot->file,
                                        .index = slot->index,
                                        .why = slot->why };
        if (slot->item && engine_item_is_damaged(slot->item)) {
            system.index = NULL;
            system.why = "the program's copy is damaged";
        }
        if (!each(context, &system))
            return;
    }
}

struct tuning_stats tuning_stats_of(const struct tuning *t)
{
    const struct scratch *s = &t->scratch;
    struct tuning_stats stats = {
        .host_records = tuning_table_count(t->table, TUNING_TIER_HOST),
        .user_records = tuning_table_count(t->table, TUNING_TIER_USER),
        .hits = { s->hits[0], s->hits[1], s->hits[2] },
        .misses = s->misses,
        .near = s->near,
        .stale = s->stale_hits,
        .ignored = s->ignored,
        .memory_bytes = tuning_table_bytes(t->table),
        .disk_bytes = t->db ? tuning_db_bytes(t->db) : 0,
        .left_out = t->left_out,
    };
    for (unsigned i = 0; i < t->system_count; i++) {
        const struct tuning_index *index = t->systems[i]->index;
        if (is_replaced(t, t->systems[i]))
            continue;
        stats.system_records += index ? tuning_index_count(index) : 0;
        stats.mapped_bytes += index ? tuning_index_bytes(index) : 0;
        stats.damaged += index ? tuning_index_damaged(index) : 1;
    }
    return stats;
}

uint64_t tuning_count_of(const struct tuning *t, uint32_t uid)
{
    return tuning_table_count_of(t->table, uid);
}

enum kiln_code tuning_check_db(struct tuning *t, struct kiln_err *err)
{
    return t->db ? tuning_db_verify(t->db, err) : KILN_OK;
}
