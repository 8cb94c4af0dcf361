/* SPDX-License-Identifier: MIT */
#include "engine/transfer/provenance.h"

#include "common/base/fs.h"
#include "engine/manifest/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST_SUFFIX ".manifest"
enum { PASSED_ON_MAX = TRANSFER_MANIFEST_MAX };
_Static_assert(PASSED_ON_MAX >= MANIFEST_MAX, "every manifest can be passed on");

static enum kiln_code read_manifest(int fd, struct buffer *manifest, struct kiln_err *err)
{
    struct stat seen;
    if (fstat(fd, &seen) != 0 || !S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_INVALID, "the manifest is not a regular file");
    enum kiln_code rc = fs_read_fd(fd, MANIFEST_MAX, manifest, err);
    return rc ? kiln_while(err, "reading the manifest") : KILN_OK;
}

/* Returns whether the server says that the file is absent. Some servers answer 403 for an absent
 * file, in order not to reveal which files exist. */
static bool is_absence(long status) { return status == 403 || status == 404 || status == 410; }

static enum kiln_code fetch_manifest(const struct url *url, const struct fetch_policy *policy,
                                     struct buffer *manifest, bool *ret_there, struct kiln_err *err)
{
    long status = 0;
    KILN_AUTO(fd) int fd = -1;
    const struct fetch_request request = { .url = url,
                                           .size_limit = MANIFEST_MAX,
                                           .policy = policy };
    enum kiln_code rc = fs_memfd("manifest", &fd, err);
    if (!rc)
        rc = fetch(&request, fd, &status, err);
    *ret_there = !rc || !is_absence(status);
    return rc ? rc : read_manifest(fd, manifest, err);
}

static enum kiln_code open_manifest(const struct url *url, struct buffer *manifest, bool *ret_there,
                                    struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(url->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    *ret_there = fd >= 0 || (errno != ENOENT && errno != EACCES);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", url->shown);
    return read_manifest(fd, manifest, err);
}

static enum kiln_code find_manifest_by_url(const struct provenance_source *source,
                                           struct buffer *manifest, bool *ret_there,
                                           struct kiln_err *err)
{
    KILN_AUTO(url) struct url beside = { 0 };
    enum kiln_code rc = url_beside(source->url, MANIFEST_SUFFIX, &beside, err);
    if (rc)
        return rc;
    rc = beside.scheme == URL_FILE
             ? open_manifest(&beside, manifest, ret_there, err)
             : fetch_manifest(&beside, source->policy, manifest, ret_there, err);
    if (*ret_there || (rc == KILN_DENIED && source->job->require_signature))
        return rc;
    return KILN_OK;
}

static enum kiln_code find_manifest(const struct provenance_source *source, struct buffer *manifest,
                                    bool *ret_there, struct kiln_err *err)
{
    int fd = source->job->manifest_fd;
    *ret_there = fd >= 0;
    if (fd >= 0)
        return read_manifest(fd, manifest, err);
    return source->url ? find_manifest_by_url(source, manifest, ret_there, err) : KILN_OK;
}

static enum kiln_code refuse_unsigned(const char *name, struct kiln_err *err)
{
    return kiln_fail(err, KILN_DENIED,
                     "'%.100s' has no signed manifest, but the setting require_signature demands "
                     "one: put '%.100s" MANIFEST_SUFFIX "', made by kilnctl pkg sign, next to it",
                     name, name);
}

enum kiln_code provenance_find(const struct provenance_source *source,
                               struct provenance *ret_provenance, struct buffer *ret_manifest,
                               struct kiln_err *err)
{
    const struct transfer_job *job = source->job;
    const char *fetched_name = source->fetched_name;
    struct provenance p = { .has_sha256 = job->sha256 };
    struct manifest_file file;
    if (job->sha256 && !digest_from_hex(job->sha256, &p.sha256))
        return kiln_fail(err, KILN_INVALID,
                         "'%.80s' is not a SHA-256, which has 64 hexadecimal digits", job->sha256);
    enum kiln_code rc = find_manifest(source, ret_manifest, &p.has_manifest, err);
    if (rc)
        return rc;
    if (!p.has_manifest && job->require_signature)
        return refuse_unsigned(fetched_name, err);
    const struct manifest_trust trust = { job->trusted_keys, job->keys_shown };
    if (p.has_manifest)
        rc = manifest_check(buffer_view(ret_manifest), &trust, fetched_name, &file, err);
    if (rc)
        return rc;
    if (p.has_manifest) {
        p.size = file.size;
        p.signed_sha256 = file.sha256;
        snprintf(p.signer, sizeof(p.signer), "%s", file.signer);
    }
    *ret_provenance = p;
    return KILN_OK;
}

static enum kiln_code refuse_digest(const char *which, const struct digest *wanted,
                                    const struct digest *found, struct kiln_err *err)
{
    char wanted_hex[DIGEST_HEX_SIZE], found_hex[DIGEST_HEX_SIZE];
    digest_to_hex(wanted, wanted_hex);
    digest_to_hex(found, found_hex);
    return kiln_fail(err, KILN_CORRUPT,
                     "this is not the file that %s: its SHA-256 is %s, not %s; it was not used",
                     which, found_hex, wanted_hex);
}

enum kiln_code provenance_check(const struct provenance *p, uint64_t size,
                                const struct digest *sha256, struct kiln_err *err)
{
    if (p->has_sha256 && !digest_equal(&p->sha256, sha256))
        return refuse_digest("the user asked for", &p->sha256, sha256, err);
    if (p->has_manifest && p->size != size)
        return kiln_fail(err, KILN_CORRUPT,
                         "this is not the file that '%s' signed: it has %llu bytes, not %llu; "
                         "it was not used",
                         p->signer, (unsigned long long)size, (unsigned long long)p->size);
    if (p->has_manifest && !digest_equal(&p->signed_sha256, sha256))
        return refuse_digest("its manifest describes", &p->signed_sha256, sha256, err);
    return KILN_OK;
}
