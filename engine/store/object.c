/* SPDX-License-Identifier: MIT */
#include "engine/store/object.h"

#include "common/base/fs.h"
#include "common/protocol/limits.h"
#include "engine/digest/sha256.h"
#include "engine/store/held_objects.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Maps |fd|, which must be sealed: reading a mapped file that was truncated raises SIGBUS. */
static enum kiln_code map_object(int fd, uint64_t size, void **ret_mapping, struct kiln_err *err)
{
    void *mapping = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map a code object of %llu bytes",
                               (unsigned long long)size);
    *ret_mapping = mapping;
    return KILN_OK;
}

static enum kiln_code seal_object(int fd, uint64_t *ret_size, struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    if (!fs_is_sealed(fd) && fs_seal(fd, &why) != KILN_OK)
        return kiln_fail(err, KILN_INVALID, "the descriptor is not a memfd that can be sealed (%s)",
                         why.text);
    struct stat seen;
    if (fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read the size of a code object");
    if (seen.st_size <= 0)
        return kiln_fail(err, KILN_INVALID, "the code object is empty");
    if ((uint64_t)seen.st_size > LIMIT_CODE_OBJECT)
        return kiln_fail(err, KILN_INVALID,
                         "the code object has %lld bytes, but at most %u are allowed",
                         (long long)seen.st_size, LIMIT_CODE_OBJECT);
    *ret_size = (uint64_t)seen.st_size;
    return KILN_OK;
}

static enum kiln_code digest_of_fd(int fd, uint64_t size, struct digest *ret_digest,
                                   struct kiln_err *err)
{
    void *mapping = NULL;
    enum kiln_code rc = map_object(fd, size, &mapping, err);
    if (rc)
        return rc;
    *ret_digest = sha256_of(bytes_of(mapping, size));
    munmap(mapping, size);
    return KILN_OK;
}

enum kiln_code object_from_checked(int fd, uint64_t size, const struct digest *digest,
                                   struct object **ret_object, struct kiln_err *err)
{
    struct object *object = malloc(sizeof(*object));
    if (!object) {
        close(fd);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot hold a code object: out of memory");
    }
    *object = (struct object){ .references = 1, .fd = fd, .size = size, .digest = *digest };
    void *mapping = NULL;
    enum kiln_code rc = KILN_OK;
    if (size <= OBJECT_INLINE_MAX)
        rc = map_object(fd, size, &mapping, err);
    object->data = mapping;
    if (rc) {
        object_unref(object);
        return rc;
    }
    *ret_object = object;
    return KILN_OK;
}

enum kiln_code object_from_memfd(int fd, uint64_t compile_ns, struct object **ret_object,
                                 struct kiln_err *err)
{
    KILN_AUTO(fd) int owned = fd;
    uint64_t size = 0;
    struct digest digest;
    enum kiln_code rc = seal_object(fd, &size, err);
    if (!rc)
        rc = digest_of_fd(fd, size, &digest, err);
    if (rc)
        return rc;
    owned = -1;
    rc = object_from_checked(fd, size, &digest, ret_object, err);
    if (!rc)
        (*ret_object)->compile_ns = compile_ns;
    return rc;
}

enum kiln_code object_from_bytes(struct bytes content, uint64_t compile_ns,
                                 struct object **ret_object, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = -1;
    enum kiln_code rc = fs_memfd("kiln-object", &fd, err);
    if (!rc)
        rc = fs_write_all(fd, content, err);
    if (rc)
        return rc;
    int given = fd;
    fd = -1;
    return object_from_memfd(given, compile_ns, ret_object, err);
}

static enum kiln_code copy_piece(struct object_copying *c, uint64_t size_max, struct kiln_err *err)
{
    OBJECT_VIEW_AUTO struct object_view view = { 0 };
    const uint64_t left = c->original->size - c->copied;
    const size_t size = (size_t)(left < size_max ? left : size_max);
    enum kiln_code rc = object_view_open(c->original, &view, err);
    if (!rc && !c->is_open)
        rc = fs_memfd("kiln-object", &c->fd, err);
    c->is_open |= !rc;
    if (!rc)
        rc = fs_write_all(c->fd, bytes_of(view.bytes.data + c->copied, size), err);
    c->copied += size;
    return rc;
}

static enum kiln_code end_copy(struct object_copying *c, struct object **ret_copy,
                               struct kiln_err *err)
{
    const struct object *original = c->original;
    struct object *copy = NULL;
    enum kiln_code rc = fs_seal(c->fd, err);
    if (rc)
        return rc;
    c->is_open = false;
    rc = object_from_checked(c->fd, original->size, &original->digest, &copy, err);
    if (rc)
        return rc;
    copy->compile_ns = original->compile_ns;
    copy->kind = original->kind;
    copy->is_private = original->is_private;
    copy->is_named = original->is_named;
    copy->owner = original->owner;
    copy->accounting_kind = original->accounting_kind;
    *ret_copy = copy;
    return KILN_OK;
}

enum kiln_code object_copy_some(struct object_copying *c, uint64_t size_max,
                                struct object **ret_copy, struct kiln_err *err)
{
    enum kiln_code rc = copy_piece(c, size_max, err);
    *ret_copy = NULL;
    return rc || c->copied < c->original->size ? rc : end_copy(c, ret_copy, err);
}

void object_copying_done(struct object_copying *c)
{
    if (c->is_open)
        close(c->fd);
    c->is_open = false;
}

enum kiln_code object_copy(const struct object *object, struct object **ret_copy,
                           struct kiln_err *err)
{
    struct object_copying c = { .original = object };
    enum kiln_code rc = object_copy_some(&c, UINT64_MAX, ret_copy, err);
    object_copying_done(&c);
    return rc;
}

struct object *object_ref(struct object *object)
{
    object->references++;
    return object;
}

struct object *object_unref(struct object *object)
{
    if (!object || --object->references > 0)
        return NULL;
    if (object->data)
        munmap((void *)object->data, object->size);
    if (object->held)
        held_object_close(object->held, object->fd);
    else if (object->close)
        object->close(object->close_context, object->fd);
    else
        close(object->fd);
    free(object->origin);
    free(object);
    return NULL;
}

enum kiln_code object_view_open(const struct object *object, struct object_view *ret_view,
                                struct kiln_err *err)
{
    void *mapping = NULL;
    if (!object->data) {
        enum kiln_code rc = map_object(object->fd, object->size, &mapping, err);
        if (rc)
            return rc;
    }
    const void *data = mapping ? mapping : (const void *)object->data;
    *ret_view = (struct object_view){ .bytes = bytes_of(data, object->size), .mapping = mapping };
    return KILN_OK;
}

void object_view_done(struct object_view *view)
{
    if (view->mapping)
        munmap(view->mapping, view->bytes.size);
    *view = (struct object_view){ 0 };
}
