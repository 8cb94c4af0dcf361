/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Kernels inside libkiln: bytes from kilnd, checked and reference-counted.
 *
 * Role       turns one result of a reply into a kernel; nothing in the reply is trusted
 * Ownership  A kernel owns its mapping or its copy.  A kernel has two handles (struct kiln_kernel),
 *            which share one reference count
 * Threading  counted atomically; immutable otherwise
 */
#include "libclient/connection/multiplexer.h"
#include "libclient/kernels/answer_cache.h"

#include <kiln/kernel.h>

struct kernel_content;

struct kiln_kernel { /* A handle of a kernel.  Stored inside the kernel's content. */
    struct kernel_content *content;
    int tier; /* tier of the answers that return this handle (KILN_TIER_*) */
};

struct kernel_content {
    atomic_uint references;
    struct kiln_kernel answer;
    /* the handle for answers from the cache, with KILN_TIER_PROCESS */
    struct kiln_kernel again;
    const void *data;
    size_t size;
    bool mapped; /* |data| is a mapping; false if it points to |copy| */
    /* The block with this kernel's memory; NULL if the kernel has its own memory. */
    struct kernel_block *block;
    uint64_t compile_ns;
    struct digest key;
    char hex[DIGEST_HEX_SIZE];
    _Alignas(16) uint8_t copy[]; /* aligned as ELF loaders expect */
};

/* Memory for many small kernels, which is freed with the last of them.  The memory is a huge page
 * if the system supports this, because touching new pages one by one costs ten times as much as
 * copying kernels into them.  Only one thread fills a block. */
#define KERNEL_BLOCK_SIZE ((size_t)2 << 20)
/* Returns NULL if out of memory; each kernel then gets its own memory. */
struct kernel_block *kernel_block_create(void);
bool kernel_block_has_space(const struct kernel_block *block, size_t size);
void kernel_block_unref(struct kernel_block *block);

/* Creates the kernel of a result whose code is KILN_OK.  Copies the bytes in the frame, or maps the
 * descriptor that the result names.  This descriptor stays in |reply|.  Returns KILN_CORRUPT unless
 * it is a memfd of the stated size that is sealed against every change. */
KILN_MUST_CHECK enum kiln_code kernel_create(const struct message_result *result,
                                             const struct reply *reply,
                                             struct kiln_kernel **ret_kernel, struct kiln_err *err);
void kernel_destroy(struct kiln_kernel *kernel);
static inline void kernel_auto(struct kiln_kernel **kernel) { kernel_destroy(*kernel); }

/* Returns the handle for answers from the cache, without a new reference. */
struct kiln_kernel *kernel_again(struct kiln_kernel *kernel);

extern const struct answer_ops kernel_value_ops;
