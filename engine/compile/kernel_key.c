/* SPDX-License-Identifier: MIT */
#include "engine/compile/kernel_key.h"

#include "engine/digest/sha256_headers.h"

/* Adds the headers to the digest. The caller has rejected malformed headers. If there are malformed
 * headers nevertheless, hashes their raw bytes, so that the key differs from every other key. */
static void put_headers(struct sha256 *s, const struct compile_job *job)
{
    if (!sha256_put_headers(s, job->headers, job->header_count))
        sha256_put_sized(s, job->headers);
}

struct digest kernel_key(const struct compile_job *job, const struct digest *toolchain_identity)
{
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of_text("kiln-key-1"));
    sha256_put_sized(&s, job->toolchain);
    sha256_put_sized(&s, job->target);
    sha256_put_sized(&s, bytes_of(toolchain_identity->bytes, sizeof(toolchain_identity->bytes)));
    sha256_put_sized(&s, job->program);
    sha256_put_sized(&s, job->options);
    sha256_put_sized(&s, job->source);
    put_headers(&s, job);
    sha256_put_number(&s, COMPILE_ABI);
    return sha256_end(&s);
}

struct digest kernel_source_id(const struct compile_job *job) { return sha256_of(job->source); }

struct digest kernel_headers_id(const struct compile_job *job)
{
    struct sha256 s;
    sha256_init(&s);
    put_headers(&s, job);
    return sha256_end(&s);
}
