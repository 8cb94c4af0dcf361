/* SPDX-License-Identifier: MIT */

/* Reads a FindDb as MIOpen does. At its start, a process reads the whole file into a hash map from
 * keys to texts, each in its own heap allocation. A look-up parses the text of a key. Texts are in
 * the newer of the two FindDb dialects, as in AMD's largest files. This program is faster than
 * MIOpen, whose parser uses C++ streams. */
#include "tests/bench/tuning_way.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct text { /* like std::string */
    char *data;
    size_t size;
};

struct node { /* like a node of std::unordered_map<string, {line, string}> */
    struct node *next;
    uint64_t hash;
    struct text key, values;
    size_t line;
};

struct map {
    struct node **buckets;
    size_t bucket_count, count;
};

static void map_close(void *state)
{
    struct map *m = state;
    for (size_t i = 0; m && i < m->bucket_count; i++) {
        for (struct node *n = m->buckets[i], *next; n; n = next) {
            next = n->next;
            free(n->key.data);
            free(n->values.data);
            free(n);
        }
    }
    if (m)
        free(m->buckets);
    free(m);
}

static bool copy_text(const char *from, size_t size, struct text *ret)
{
    ret->data = malloc(size + 1);
    if (!ret->data)
        return false;
    memcpy(ret->data, from, size);
    ret->data[size] = '\0';
    ret->size = size;
    return true;
}

static struct node *find_node(const struct map *m, const char *key, size_t size, uint64_t hash)
{
    if (!m->bucket_count)
        return NULL;
    struct node *n = m->buckets[hash & (m->bucket_count - 1)];
    while (n && !(n->hash == hash && n->key.size == size && !memcmp(n->key.data, key, size)))
        n = n->next;
    return n;
}

static bool grow_map(struct map *m)
{
    size_t count = m->bucket_count ? 2 * m->bucket_count : 16;
    struct node **buckets = calloc(count, sizeof(struct node *));
    if (!buckets)
        return false;
    for (size_t i = 0; i < m->bucket_count; i++) {
        for (struct node *n = m->buckets[i], *next; n; n = next) {
            next = n->next;
            n->next = buckets[n->hash & (count - 1)];
            buckets[n->hash & (count - 1)] = n;
        }
    }
    free(m->buckets);
    m->buckets = buckets;
    m->bucket_count = count;
    return true;
}

/* Adds a line unless the map has its key. Returns false if out of memory. */
static bool add_line(struct map *m, const char *line, size_t size, size_t number)
{
    const char *equals = memchr(line, '=', size);
    if (!equals)
        return true;
    size_t key_size = (size_t)(equals - line);
    uint64_t hash = bytes_hash(bytes_of(line, key_size), 0);
    if (find_node(m, line, key_size, hash))
        return true;
    if (m->count == m->bucket_count && !grow_map(m))
        return false;
    struct node *n = calloc(1, sizeof(*n));
    if (!n)
        return false;
    n->hash = hash;
    n->line = number;
    struct node **bucket = &m->buckets[hash & (m->bucket_count - 1)];
    n->next = *bucket;
    *bucket = n;
    m->count++;
    return copy_text(line, key_size, &n->key) &&
           copy_text(equals + 1, size - key_size - 1, &n->values);
}

static enum kiln_code load_file(struct map *m, const char *path, struct kiln_err *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return kiln_fail_errno(err, errno, "cannot open '%s'", path);
    KILN_AUTO(mem) char *line = NULL;
    size_t capacity = 0, number = 0;
    enum kiln_code rc = KILN_OK;
    for (ssize_t n; !rc && (n = getline(&line, &capacity, file)) > 0;) {
        size_t size = (size_t)n - (line[n - 1] == '\n');
        if (!add_line(m, line, size, ++number))
            rc = kiln_fail(err, KILN_NO_MEMORY, "cannot hold line %zu of '%s'", number, path);
    }
    fclose(file);
    return rc;
}

static enum kiln_code map_open(const struct way_place *place, void **ret_state,
                               struct kiln_err *err)
{
    struct map *m = calloc(1, sizeof(*m));
    enum kiln_code rc = m ? load_file(m, place->data->path, err)
                          : kiln_fail(err, KILN_NO_MEMORY, "cannot make a map");
    if (rc) {
        map_close(m);
        return rc;
    }
    *ret_state = m;
    return KILN_OK;
}

struct found {
    struct text id, values;
    double time_ms;
    unsigned long long workspace;
};

/* Reads an entry "solver:time,workspace,algorithm". Parses the numbers and copies the names. */
static bool take_entry(const char *at, size_t size, struct found *ret)
{
    const char *colon = memchr(at, ':', size);
    if (!colon)
        return false;
    size_t id_size = (size_t)(colon - at);
    if (!copy_text(at, id_size, &ret->id) ||
        !copy_text(colon + 1, size - id_size - 1, &ret->values))
        return false;
    char *end;
    ret->time_ms = strtod(ret->values.data, &end);
    if (*end != ',')
        return false;
    ret->workspace = strtoull(end + 1, &end, 10);
    return *end == ',';
}

static size_t take_entries(const struct text *values, struct found found[TUNING_ENTRIES_MAX])
{
    size_t count = 0;
    const char *at = values->data, *end = at + values->size;
    while (at < end && count < TUNING_ENTRIES_MAX) {
        const char *semicolon = memchr(at, ';', (size_t)(end - at));
        const char *stop = semicolon ? semicolon : end;
        found[count] = (struct found){ .time_ms = 0 };
        count += take_entry(at, (size_t)(stop - at), &found[count]);
        at = stop + 1;
    }
    return count;
}

static enum kiln_code map_ask(void *state, const struct data_question *question,
                              struct kiln_err *err)
{
    const struct map *m = state;
    char key[PROBLEM_KEY_MAX];
    size_t size = find_key_write(&question->problem, key);
    const struct node *n = find_node(m, key, size, bytes_hash(bytes_of(key, size), 0));
    if (!n)
        return kiln_fail(err, KILN_NOT_FOUND, "the map has no '%s'", key);
    struct found found[TUNING_ENTRIES_MAX];
    size_t count = take_entries(&n->values, found);
    for (size_t i = 0; i < count; i++) {
        free(found[i].id.data);
        free(found[i].values.data);
    }
    return count ? KILN_OK : kiln_fail(err, KILN_CORRUPT, "'%s' has no entries", key);
}

const struct tuning_way way_miopen_find = {
    .name = "miopen",
    .open = map_open,
    .ask = map_ask,
    .close = map_close,
};
