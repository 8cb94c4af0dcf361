/* SPDX-License-Identifier: MIT */
#ifndef KILN_KERNEL_H
#define KILN_KERNEL_H

/*
 * Kernels: compiled code objects, ready to be loaded by a GPU runtime.
 *
 * Ownership  Kernels are reference-counted: a caller that obtains one releases it with
 *            kiln_kernel_unref.  The bytes of a kernel of up to 16 KiB are a private copy.  The
 *            bytes of a larger kernel are a read-only mapping of a sealed memfd, which all
 *            processes of the host share.  The bytes stay valid and unchanged until the last unref,
 *            even after the client was closed.
 * Threads    Kernels may be shared between threads.
 */
#include <kiln/client.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_kernel;

/* Tiers: where a kernel came from. */
enum {
    KILN_TIER_NONE = 0,
    KILN_TIER_HOT = 1,      /* kilnd's memory */
    KILN_TIER_DISK = 2,     /* kilnd's store on the disk */
    KILN_TIER_PACKAGE = 3,  /* an installed package */
    KILN_TIER_FLEET = 4,    /* another host compiled the kernel */
    KILN_TIER_COMPILED = 5, /* kilnd compiled the kernel for this request */
    KILN_TIER_PROCESS = 6   /* the in-process cache */
};

enum { KILN_INTERACTIVE = 0, KILN_PREFETCH = 1 };

struct kiln_header {
    const char *name; /* the name in #include "name" */
    const char *text;
    size_t text_size; /* size in bytes; 0 if |text| is NUL-terminated */
};

struct kiln_kernel_source {
    size_t size;
    const char *target; /* "gfx90a:sramecc+:xnack-", "gfx1030", "sm_90", "opencl:..." */
    /* "hiprtc", "clang", "nvrtc" or "opencl"; NULL: the daemon chooses. */
    const char *toolchain;
    const char *program; /* name of the translation unit, such as "MyConv.cpp"; not a path */
    /* such as "-DTILE=16 -O3"; NULL: none.  Only allow-listed options are accepted */
    const char *options;
    const char *source;
    size_t source_size; /* size in bytes; 0 if |source| is NUL-terminated */
    const struct kiln_header *headers;
    size_t header_count;
    int priority;   /* KILN_INTERACTIVE or KILN_PREFETCH */
    int timeout_ms; /* 0: the client's default; ignored in a batch, which has its own time-out */
};

/* MIOpen's name of a kernel */
struct kiln_kernel_name {
    size_t size;
    /* a device's database id, such as "gfx906_60" or "gfx90a68"; or an architecture, "gfx90a" */
    const char *database_id;
    const char *name; /* name of the kernel's file, such as "conv3x3.s.o" */
    const char *args; /* the kernel's arguments, verbatim; NULL: none */
    int timeout_ms;   /* 0: the client's default */
};

/* Fetches a kernel by its key (64 hexadecimal digits).  Never compiles: returns KILN_E_NOT_FOUND if
 * there is no such kernel. */
int kiln_kernel_fetch(struct kiln_client *client, const char *key, int timeout_ms,
                      struct kiln_kernel **ret_kernel, struct kiln_error *err);
/* Fetches the kernel of a source with its target and options.  The daemon compiles the kernel if it
 * is not cached.  Returns KILN_E_COMPILE_FAILED if the compiler failed (the compiler's log is in
 * err->log), KILN_E_UNSUPPORTED if no compiler of this host supports the target, and KILN_E_DENIED
 * for an option that is not allowed. docs/protocol.md lists the allowed options. */
int kiln_kernel_fetch_source(struct kiln_client *client, const struct kiln_kernel_source *source,
                             struct kiln_kernel **ret_kernel, struct kiln_error *err);

/* Fetches a kernel by MIOpen's name for it.  The search order is: kernels that this user imported,
 * kernels imported for all users, packages for |database_id|, packages for the architecture of
 * |database_id| alone (such as "gfx90a").  Returns KILN_E_NOT_FOUND if none of these has the
 * kernel. */
int kiln_kernel_fetch_named(struct kiln_client *client, const struct kiln_kernel_name *name,
                            struct kiln_kernel **ret_kernel, struct kiln_error *err);

/* Called once for each item of a batch, as items become ready, on the calling thread.  On success,
 * |kernel| is borrowed (call kiln_kernel_ref to keep it) and |err| is NULL.  On failure, |kernel|
 * is NULL and |err| says why.  The callback may call the library with the same client.  If it
 * returns a value other than 0, the batch stops and the callback is not called again. */
typedef int kiln_kernel_ready(void *context, size_t index, struct kiln_kernel *kernel,
                              const struct kiln_error *err);

struct kiln_kernel_batch {
    size_t size;
    const char *const *keys; /* borrowed, like |sources|; exactly one of the two is set */
    const struct kiln_kernel_source *sources;
    size_t count;
    kiln_kernel_ready *ready;
    void *context;  /* passed to |ready| */
    int timeout_ms; /* time-out of the whole batch; 0: the client's default */
};
/* Fetches many kernels at once.  Returns KILN_E_OK when every item was answered, including items
 * that failed, and KILN_E_CANCELLED when |ready| stopped the batch.  After any other error, the
 * remaining items cannot be obtained. */
int kiln_kernel_fetch_batch(struct kiln_client *client, const struct kiln_kernel_batch *batch,
                            struct kiln_error *err);

struct kiln_kernel *kiln_kernel_ref(struct kiln_kernel *kernel);
void kiln_kernel_unref(struct kiln_kernel *kernel); /* accepts NULL */
const void *kiln_kernel_data(const struct kiln_kernel *kernel);
size_t kiln_kernel_size(const struct kiln_kernel *kernel);     /* bytes */
const char *kiln_kernel_key(const struct kiln_kernel *kernel); /* 64 hexadecimal digits */
/* Returns where this answer came from (KILN_TIER_*). */
int kiln_kernel_tier(const struct kiln_kernel *kernel);
/* Returns how many nanoseconds of wall-clock time the compilation took, or 0 if not known. */
uint64_t kiln_kernel_compile_ns(const struct kiln_kernel *kernel);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
