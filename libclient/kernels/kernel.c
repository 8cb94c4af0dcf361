/* SPDX-License-Identifier: MIT */
#include "libclient/kernels/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* With these seals, no process can change or truncate the mapped pages. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

_Static_assert((int)KILN_TIER_HOT == (int)TIER_HOT && (int)KILN_TIER_DISK == (int)TIER_DISK &&
                   (int)KILN_TIER_PACKAGE == (int)TIER_PACKAGE &&
                   (int)KILN_TIER_COMPILED == (int)TIER_COMPILED,
               "KILN_TIER_* differs from enum tier");

struct kernel_block { /* stored at the start of the memory that it manages */
    atomic_uint references;
    size_t used;
};

struct kernel_block *kernel_block_create(void)
{
    size_t size = KERNEL_BLOCK_SIZE;
    void *map = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    /* bytes before the first address that is aligned for a huge page */
    size_t before = -(uintptr_t)map & (size - 1);
    uint8_t *at = (uint8_t *)map + before;
    if (before)
        munmap(map, before);
    munmap(at + size, size - before);
    (void)madvise(at, size, MADV_HUGEPAGE);
    struct kernel_block *b = (struct kernel_block *)(void *)at;
    atomic_init(&b->references, 1);
    b->used = sizeof(*b);
    return b;
}

bool kernel_block_has_space(const struct kernel_block *block, size_t size)
{
    return block && KERNEL_BLOCK_SIZE - block->used >= size;
}

void kernel_block_unref(struct kernel_block *block)
{
    if (block && atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel) == 1)
        munmap(block, KERNEL_BLOCK_SIZE);
}

static void *take_space(struct kernel_block *b, size_t size)
{
    void *space = (uint8_t *)b + b->used;
    b->used += size;
    atomic_fetch_add_explicit(&b->references, 1, memory_order_relaxed);
    return space;
}

static struct kernel_content *make_content(const struct message_result *o, size_t copied,
                                           struct kernel_block *block)
{
    struct kernel_content *c;
    size_t size = (sizeof(*c) + copied + 15) & ~(size_t)15; /* keeps the next kernel aligned */
    if (!kernel_block_has_space(block, size))
        block = NULL;
    c = block ? take_space(block, size) : malloc(size);
    if (!c)
        return NULL;
    c->block = block;
    atomic_init(&c->references, 1);
    c->answer = (struct kiln_kernel){ .content = c, .tier = o->tier };
    c->again = (struct kiln_kernel){ .content = c, .tier = KILN_TIER_PROCESS };
    c->data = c->copy;
    c->size = (size_t)o->size;
    c->mapped = false;
    c->compile_ns = o->spent_ns;
    c->key = o->key;
    digest_to_hex(&o->key, c->hex);
    return c;
}

static enum kiln_code check_result(const struct message_result *o, struct kiln_err *err)
{
    if (o->tier > TIER_COMPILED)
        return kiln_fail(err, KILN_CORRUPT, "kilnd names tier %u, which does not exist", o->tier);
    if (o->size == 0 || o->size > LIMIT_CODE_OBJECT)
        return kiln_fail(err, KILN_CORRUPT, "kilnd sent a code object of %llu bytes",
                         (unsigned long long)o->size);
    return KILN_OK;
}

static enum kiln_code copy_inline(const struct message_result *o, const struct reply *reply,
                                  struct kernel_content **ret_content, struct kiln_err *err)
{
    if (o->content.size != o->size)
        return kiln_fail(err, KILN_CORRUPT, "kilnd announced %llu bytes and sent %zu",
                         (unsigned long long)o->size, o->content.size);
    if (o->size > LIMIT_INLINE_OBJECT || !(reply->capabilities & CAPABILITY_INLINE))
        return kiln_fail(err, KILN_CORRUPT,
                         "kilnd sent %zu bytes inside the frame, which nobody asked for",
                         o->content.size);
    struct kernel_content *c = make_content(o, o->content.size, reply->block);
    if (!c)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a kernel of %zu bytes",
                         o->content.size);
    memcpy(c->copy, o->content.data, o->content.size);
    *ret_content = c;
    return KILN_OK;
}

static enum kiln_code check_descriptor(int fd, uint64_t size, struct kiln_err *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return kiln_fail(err, KILN_CORRUPT, "kilnd sent a descriptor that is not a sealed memfd");
    if (fstat(fd, &st) < 0)
        return kiln_fail_errno(err, errno, "cannot read the size of a descriptor from kilnd");
    if ((uint64_t)st.st_size != size)
        return kiln_fail(err, KILN_CORRUPT, "kilnd announced %llu bytes and sent a memfd of %llu",
                         (unsigned long long)size, (unsigned long long)st.st_size);
    return KILN_OK;
}

static enum kiln_code map_descriptor(const struct message_result *o, const struct reply *reply,
                                     struct kernel_content **ret_content, struct kiln_err *err)
{
    if (o->descriptor >= reply->descriptor_count || reply->descriptors[o->descriptor] < 0)
        return kiln_fail(err, KILN_CORRUPT, "kilnd names descriptor %u of %zu", o->descriptor,
                         reply->descriptor_count);
    int fd =
        /* The descriptor stays in |reply|, which closes it after accept(). */
        reply->descriptors[o->descriptor];
    enum kiln_code rc = check_descriptor(fd, o->size, err);
    if (rc)
        return rc;
    struct kernel_content *c = make_content(o, 0, NULL);
    if (!c)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a kernel");
    void *data = mmap(NULL, c->size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        rc = kiln_fail_errno(err, errno, "cannot map a kernel of %zu bytes", c->size);
        free(c);
        return rc;
    }
    c->data = data;
    c->mapped = true;
    *ret_content = c;
    return KILN_OK;
}

enum kiln_code kernel_create(const struct message_result *result, const struct reply *reply,
                             struct kiln_kernel **ret_kernel, struct kiln_err *err)
{
    struct kernel_content *content = NULL;
    enum kiln_code rc = check_result(result, err);
    if (!rc && result->descriptor == NO_DESCRIPTOR)
        rc = copy_inline(result, reply, &content, err);
    else if (!rc)
        rc = map_descriptor(result, reply, &content, err);
    if (!rc)
        *ret_kernel = &content->answer;
    return rc;
}

void kernel_destroy(struct kiln_kernel *kernel)
{
    if (!kernel)
        return;
    struct kernel_content *c = kernel->content;
    if (atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) != 1)
        return;
    if (c->mapped)
        munmap((void *)c->data, c->size);
    if (c->block)
        kernel_block_unref(c->block);
    else
        free(c);
}

struct kiln_kernel *kernel_again(struct kiln_kernel *kernel) { return &kernel->content->again; }

static void ref_value(void *value) { kiln_kernel_ref(value); }
static void unref_value(void *value) { kernel_destroy(value); }
const struct answer_ops kernel_value_ops = { .ref = ref_value, .unref = unref_value };

struct kiln_kernel *kiln_kernel_ref(struct kiln_kernel *kernel)
{
    atomic_fetch_add_explicit(&kernel->content->references, 1, memory_order_relaxed);
    return kernel;
}

void kiln_kernel_unref(struct kiln_kernel *kernel) { kernel_destroy(kernel); }
const void *kiln_kernel_data(const struct kiln_kernel *kernel) { return kernel->content->data; }
size_t kiln_kernel_size(const struct kiln_kernel *kernel) { return kernel->content->size; }
const char *kiln_kernel_key(const struct kiln_kernel *kernel) { return kernel->content->hex; }
int kiln_kernel_tier(const struct kiln_kernel *kernel) { return kernel->tier; }
uint64_t kiln_kernel_compile_ns(const struct kiln_kernel *kernel)
{
    return kernel->content->compile_ns;
}
