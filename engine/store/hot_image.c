/* SPDX-License-Identifier: MIT */
#include "engine/store/hot_image.h"

#include "common/fs.h"

#include <string.h>
#include <sys/stat.h>

/*
 * Little-endian numbers:
 *
 *   header   "kilnhot" and a NUL, u32 version, u32 uid of kilnd, u64 sequence, 32 bytes packages,
 *            u32 objects, u32 keys
 *   objects  32 bytes SHA-256 of the content, u64 size, u64 compile_ns, u32 flags, u32 owner, u32
 *            and bytes of the target, the same of the program
 *   keys     32 bytes key, u32 object; the one used longest ago first
 *
 * Nothing follows.  A change of any of it is another version.
 */
#define VERSION 2u
#define FLAG_PRIVATE 1u
#define FLAG_NAMED 2u
static const char magic[8] = "kilnhot";

/* Several keys lead to one object, none to a thousand of them. */
#define KEYS_MOST (2 * HOT_IMAGE_OBJECTS_MOST)
#define INDEX_MOST (64u << 20)

/* ---- writing ---- */

struct writer {
    struct hot_image *image;
    size_t objects_most;
    const struct digest **keys; /* newest first */
    uint32_t *places;           /* of their objects */
    struct object **objects;
    size_t key_count;
};

/* |object| in the image, or nothing when it is full. */
static bool place_of(struct writer *w, struct object *object, uint32_t *ret_place)
{
    if (object->image_place == 0) {
        if (w->image->count == w->objects_most)
            return false;
        w->objects[w->image->count] = object;
        w->image->fds[w->image->count] = object->fd;
        object->image_place = (uint32_t)++w->image->count;
    }
    *ret_place = object->image_place - 1;
    return true;
}

static bool collect(void *context, const struct digest *key, struct object *object)
{
    struct writer *w = context;
    if (w->key_count == KEYS_MOST)
        return false;
    if (place_of(w, object, &w->places[w->key_count]))
        w->keys[w->key_count++] = key;
    return true;
}

static void put_objects(const struct writer *w, const struct hot_image_books *books)
{
    struct buffer *out = &w->image->index;
    for (size_t i = 0; i < w->image->count; i++) {
        struct object *o = w->objects[i];
        o->image_place = 0;
        buffer_put(out, o->digest.bytes, DIGEST_SIZE);
        buffer_put_u64(out, o->size);
        buffer_put_u64(out, o->compile_ns);
        buffer_put_u32(out, (o->is_private ? FLAG_PRIVATE : 0) | (o->is_named ? FLAG_NAMED : 0));
        buffer_put_u32(out, o->owner);
        const struct object_origin *made_of = books->look_up(books->context, o);
        buffer_put_sized(out, bytes_of_text(made_of->target));
        buffer_put_sized(out, bytes_of_text(made_of->program));
    }
}

static void put_index(const struct writer *w, const struct hot_image_origin *origin,
                      const struct hot_image_books *books)
{
    struct buffer *out = &w->image->index;
    buffer_put(out, magic, sizeof(magic));
    buffer_put_u32(out, VERSION);
    buffer_put_u32(out, origin->uid);
    buffer_put_u64(out, origin->sequence);
    buffer_put(out, origin->packages.bytes, DIGEST_SIZE);
    buffer_put_u32(out, (uint32_t)w->image->count);
    buffer_put_u32(out, (uint32_t)w->key_count);
    put_objects(w, books);
    for (size_t i = w->key_count; i > 0; i--) {
        buffer_put(out, w->keys[i - 1]->bytes, DIGEST_SIZE);
        buffer_put_u32(out, w->places[i - 1]);
    }
}

enum kiln_code hot_image_write(const struct hot_set *set, const struct hot_image_origin *origin,
                               const struct hot_image_books *books, size_t objects_most,
                               struct hot_image *ret_image, struct kiln_err *err)
{
    HOT_IMAGE_AUTO struct hot_image image = { 0 };
    size_t keys = hot_set_count(set) > 0 ? hot_set_count(set) : 1;
    size_t most = keys < objects_most ? keys : objects_most;
    most = most < HOT_IMAGE_OBJECTS_MOST ? most : HOT_IMAGE_OBJECTS_MOST;
    KILN_AUTO(mem) const struct digest **key_list = calloc(keys, sizeof(const struct digest *));
    KILN_AUTO(mem) uint32_t *places = calloc(keys, sizeof(*places));
    KILN_AUTO(mem) struct object **objects = calloc(most + 1, sizeof(struct object *));
    buffer_init(&image.index, INDEX_MOST);
    image.fds = calloc(most + 1, sizeof(*image.fds));
    if (!key_list || !places || !objects || !image.fds)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot describe the hot set: out of memory");
    struct writer w = { .image = &image,
                        .objects_most = most,
                        .keys = key_list,
                        .places = places,
                        .objects = objects };
    hot_set_each(set, collect, &w);
    put_index(&w, origin, books);
    if (image.index.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot describe the hot set: out of memory");
    *ret_image = image;
    image = (struct hot_image){ 0 };
    return KILN_OK;
}

void hot_image_done(struct hot_image *image)
{
    buffer_done(&image->index);
    free(image->fds);
    *image = (struct hot_image){ 0 };
}

/* ---- reading ---- */

struct header {
    struct hot_image_origin origin;
    uint32_t objects, keys;
};

static enum kiln_code damaged(struct kiln_err *err, const char *what)
{
    return kiln_fail(err, KILN_CORRUPT, "its index is damaged: %s", what);
}

static enum kiln_code read_header(struct reader *r, struct header *ret_header, struct kiln_err *err)
{
    struct bytes mark = reader_take(r, sizeof(magic));
    uint32_t version = reader_u32(r);
    if (r->failed || !bytes_equal(mark, bytes_of(magic, sizeof(magic))))
        return damaged(err, "it does not begin as one");
    if (version != VERSION)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "its index has version %u, this kilnd knows version %u", version, VERSION);
    struct header h = { 0 };
    h.origin.uid = reader_u32(r);
    h.origin.sequence = reader_u64(r);
    struct bytes packages = reader_take(r, DIGEST_SIZE);
    h.objects = reader_u32(r);
    h.keys = reader_u32(r);
    if (r->failed)
        return damaged(err, "it is cut short");
    memcpy(h.origin.packages.bytes, packages.data, DIGEST_SIZE);
    *ret_header = h;
    return KILN_OK;
}

static enum kiln_code check_header(const struct header *h, size_t count,
                                   const struct hot_image_origin *origin, struct kiln_err *err)
{
    if (h->objects > HOT_IMAGE_OBJECTS_MOST || h->keys > KEYS_MOST)
        return damaged(err, "it speaks of more than fits");
    if (h->objects != count)
        return kiln_fail(err, KILN_CORRUPT,
                         "its index speaks of %u code objects, %zu descriptors came", h->objects,
                         count);
    if (h->origin.uid != origin->uid)
        return kiln_fail(err, KILN_NOT_FOUND, "it is of a kilnd of user %u", h->origin.uid);
    if (!digest_equal(&h->origin.packages, &origin->packages))
        return kiln_fail(err, KILN_NOT_FOUND, "packages have changed since it was kept");
    return KILN_OK;
}

struct entry { /* of the index */
    struct digest digest;
    uint64_t size, compile_ns;
    uint32_t flags, owner;
    struct bytes target, program;
};

static struct entry read_entry(struct reader *r)
{
    struct entry e = { 0 };
    struct bytes digest = reader_take(r, DIGEST_SIZE);
    if (!r->failed)
        memcpy(e.digest.bytes, digest.data, DIGEST_SIZE);
    e.size = reader_u64(r);
    e.compile_ns = reader_u64(r);
    e.flags = reader_u32(r);
    e.owner = reader_u32(r);
    e.target = reader_sized(r);
    e.program = reader_sized(r);
    return e;
}

static uint32_t read_key(struct reader *r, struct digest *ret_key)
{
    struct bytes key = reader_take(r, DIGEST_SIZE);
    if (!r->failed)
        memcpy(ret_key->bytes, key.data, DIGEST_SIZE);
    return reader_u32(r);
}

/* All of it, before any of it is used. */
static enum kiln_code check_all(struct reader r, const struct header *h, struct kiln_err *err)
{
    struct digest ignored;
    for (uint32_t i = 0; i < h->objects && !r.failed; i++)
        read_entry(&r);
    for (uint32_t i = 0; i < h->keys && !r.failed; i++) {
        if (read_key(&r, &ignored) >= h->objects && !r.failed)
            return damaged(err, "a key leads to no code object");
    }
    if (r.failed || reader_left(&r) > 0)
        return damaged(err, "it has another size than it says");
    return KILN_OK;
}

/* Whether the descriptor is what the index says, as far as can be told without reading it. */
static bool is_sound(int fd, const struct entry *e)
{
    struct stat seen;
    return e->size > 0 && e->size <= LIMIT_CODE_OBJECT &&
           (e->flags & ~(FLAG_PRIVATE | FLAG_NAMED)) == 0 &&
           e->target.size < sizeof(((struct object_origin *)0)->target) &&
           e->program.size < sizeof(((struct object_origin *)0)->program) && fs_is_sealed(fd) &&
           fstat(fd, &seen) == 0 && (uint64_t)seen.st_size == e->size;
}

static void note_origin(const struct hot_image_books *books, struct object *object,
                        const struct entry *e)
{
    struct object_origin made_of = { { 0 }, { 0 } };
    if (e->target.size > 0)
        memcpy(made_of.target, e->target.data, e->target.size);
    if (e->program.size > 0)
        memcpy(made_of.program, e->program.data, e->program.size);
    books->note(books->context, object, &made_of);
}

/* NULL for one that is refused. */
static struct object *read_object(struct reader *r, const struct hot_image_books *books, int *fd)
{
    const struct entry e = read_entry(r);
    struct object *object = NULL;
    struct kiln_err ignored = KILN_ERR_INIT;
    if (!is_sound(*fd, &e))
        return NULL;
    int taken = *fd;
    *fd = -1;
    if (object_from_kept(taken, e.size, &e.digest, e.compile_ns, &object, &ignored))
        return NULL;
    object->is_private = e.flags & FLAG_PRIVATE;
    object->is_named = e.flags & FLAG_NAMED;
    object->owner = e.owner;
    note_origin(books, object, &e);
    return object;
}

static void insert_all(struct hot_set *set, struct reader *r, uint32_t keys,
                       struct object *const *objects)
{
    for (uint32_t i = 0; i < keys; i++) {
        struct digest key = { { 0 } };
        uint32_t place = read_key(r, &key);
        if (objects[place])
            hot_set_insert(set, &key, objects[place]);
    }
}

enum kiln_code hot_image_read(struct hot_set *set, struct bytes index,
                              const struct hot_image_origin *origin,
                              const struct hot_image_books *books, int *fds, size_t count,
                              struct hot_image_taken *ret_taken, struct kiln_err *err)
{
    struct header h;
    struct reader r = reader_of(index);
    enum kiln_code rc = read_header(&r, &h, err);
    if (!rc)
        rc = check_header(&h, count, origin, err);
    if (!rc)
        rc = check_all(r, &h, err);
    if (rc)
        return rc;
    KILN_AUTO(mem) struct object **objects = calloc((size_t)h.objects + 1, sizeof(struct object *));
    if (!objects)
        return kiln_fail(err, KILN_NO_MEMORY, "out of memory");
    struct hot_image_taken taken = { 0 };
    for (uint32_t i = 0; i < h.objects; i++) {
        objects[i] = read_object(&r, books, &fds[i]);
        taken.objects += objects[i] != NULL;
        taken.refused += objects[i] == NULL;
    }
    insert_all(set, &r, h.keys, objects);
    for (uint32_t i = 0; i < h.objects; i++)
        object_unref(objects[i]);
    *ret_taken = taken;
    return KILN_OK;
}

uint64_t hot_image_sequence(struct bytes index)
{
    struct header h;
    struct reader r = reader_of(index);
    struct kiln_err ignored = KILN_ERR_INIT;
    return read_header(&r, &h, &ignored) ? 0 : h.origin.sequence;
}
