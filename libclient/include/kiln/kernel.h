/* SPDX-License-Identifier: MIT */
#ifndef KILN_KERNEL_H
#define KILN_KERNEL_H

/*
 * Kernels: compiled code objects, ready to hand to a GPU runtime.
 *
 * Ownership  a kernel is counted: whoever got one calls kiln_kernel_unref.  Its bytes are a
 *            private copy up to 16 KiB, and above that a read-only mapping of a sealed memfd that
 *            all processes of the host share.  Either way they stay valid and unchanged until the
 *            last unref, also after the client was closed.
 * Threads    kernels may be shared between threads.
 */
#include <kiln/client.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_kernel;

/* Who had it. */
enum {
    KILN_TIER_NONE = 0,
    KILN_TIER_HOT = 1,
    KILN_TIER_DISK = 2,
    KILN_TIER_PACKAGE = 3,
    KILN_TIER_COMPILED = 5, /* 4 is reserved */
    KILN_TIER_TABLE = 6     /* this process's own table */
};

enum { KILN_INTERACTIVE = 0, KILN_PREFETCH = 1 };

struct kiln_header {
    const char *name; /* as it stands in #include "name" */
    const char *text;
    size_t text_size; /* bytes; 0: text is terminated */
};

struct kiln_kernel_source {
    size_t size;           /* sizeof(struct kiln_kernel_source) */
    const char *target;    /* "gfx90a:sramecc+:xnack-", "gfx1030", "sm_90", "opencl:..." */
    const char *toolchain; /* NULL: the daemon chooses; else "hiprtc", "clang", "nvrtc", "opencl" */
    const char *program;   /* names the unit: "MyConv.cpp"; no path */
    const char *options;   /* "-DTILE=16 -O3"; NULL: none.  An allow-list applies */
    const char *source;
    size_t source_size; /* bytes; 0: source is terminated */
    const struct kiln_header *headers;
    size_t header_count;
    int priority; /* KILN_INTERACTIVE or KILN_PREFETCH */
};

/* A kernel by its key (64 hexadecimal digits).  Never compiles: KILN_E_NOT_FOUND on a miss. */
int kiln_kernel_fetch(struct kiln_client *client, const char *key, int timeout_ms,
                      struct kiln_kernel **ret_kernel, struct kiln_error *err);
/* A kernel by what it is made of; compiled by the daemon when nobody has it. */
int kiln_kernel_fetch_source(struct kiln_client *client, const struct kiln_kernel_source *source,
                             int timeout_ms, struct kiln_kernel **ret_kernel,
                             struct kiln_error *err);

/* A kernel by MIOpen's name for it: a database id ("gfx906_60", "gfx90a68", "gfx90a"), the kernel's
 * name
 * ("conv3x3.s.o") and its arguments, verbatim.  What this user imported comes first, then what was
 * imported for everyone, then packages of that id, then those of its plain arch.  KILN_E_NOT_FOUND
 * on a miss. */
int kiln_kernel_fetch_named(struct kiln_client *client, const char *database_id, const char *name,
                            const char *args, int timeout_ms, struct kiln_kernel **ret_kernel,
                            struct kiln_error *err);

/* Called once for each item of a batch, in the order they are ready, on the calling thread.
 * |kernel| (borrowed: ref it to keep it) is NULL on failure, |err| then says why; |err| is NULL
 * otherwise.  May call the library with the same client.  Not 0: stop, no more calls. */
typedef int kiln_kernel_ready(void *context, size_t index, struct kiln_kernel *kernel,
                              const struct kiln_error *err);

/* Many at once.  |keys| or |sources| has |count| members, the other is NULL.  Returns KILN_E_OK
 * when every item was answered, failed ones included; KILN_E_CANCELLED when |ready| stopped it;
 * another error only when the rest will never come.  The time-out is for the whole. */
int kiln_kernel_fetch_batch(struct kiln_client *client, const char *const *keys,
                            const struct kiln_kernel_source *sources, size_t count, int timeout_ms,
                            kiln_kernel_ready *ready, void *context, struct kiln_error *err);

struct kiln_kernel *kiln_kernel_ref(struct kiln_kernel *kernel);
void kiln_kernel_unref(struct kiln_kernel *kernel); /* accepts NULL */
const void *kiln_kernel_data(const struct kiln_kernel *kernel);
size_t kiln_kernel_size(const struct kiln_kernel *kernel);     /* bytes */
const char *kiln_kernel_key(const struct kiln_kernel *kernel); /* 64 hexadecimal digits */
int kiln_kernel_tier(const struct kiln_kernel *kernel);        /* KILN_TIER_* of this answer */
/* Wall-clock nanoseconds that compiling it took when it was made; 0 when not known. */
uint64_t kiln_kernel_compile_ns(const struct kiln_kernel *kernel);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
