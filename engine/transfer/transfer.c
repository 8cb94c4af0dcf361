/* SPDX-License-Identifier: MIT */
#include "engine/transfer/transfer.h"

#include "common/base/fs.h"
#include "engine/codec/bzip2.h"
#include "engine/digest/sha256.h"
#include "engine/miopen/names/database_id.h"
#include "engine/package/package.h"
#include "engine/transfer/check_rows.h"
#include "engine/transfer/copy_file.h"
#include "engine/transfer/provenance.h"
#include "engine/transfer/transfer_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define BZIP2_SUFFIX ".bz2"
#define NAME_SIZE sizeof(((struct transfer_result *)0)->name)

struct transfer {
    const struct transfer_job *job;
    const struct fetch_policy *policy;
    const struct transfer_sink *sink;
    struct url url;   /* owned; without a text if the job has a descriptor instead */
    int source_fd;    /* the file to copy, borrowed from the job or from |opened_fd|; -1: fetch
                       * |url| by HTTP */
    int opened_fd;    /* owned; the file of a file: URL */
    int directory_fd; /* owned; the staging directory */
    int file_fd;      /* owned; first the fetched file, later the unpacked one */
    uint64_t fetched;
    struct copy_limit limit;
    struct provenance provenance;
    struct buffer manifest; /* owned; empty if there is none */
    struct transfer_result *result;
    struct kiln_err *err;
};

static void transfer_done(struct transfer *t)
{
    url_done(&t->url);
    buffer_done(&t->manifest);
    fd_auto(&t->opened_fd);
    fd_auto(&t->directory_fd);
    fd_auto(&t->file_fd);
}

static const char *fetched_name(const struct transfer *t)
{
    return t->url.name[0] ? t->url.name : t->job->name;
}

static void unpacked_name(const char *name, char ret_name[NAME_SIZE])
{
    size_t suffix = strlen(BZIP2_SUFFIX), length = strlen(name);
    memcpy(ret_name, name, length + 1);
    if (length > suffix && strcmp(ret_name + length - suffix, BZIP2_SUFFIX) == 0)
        ret_name[length - suffix] = '\0';
}

static enum kiln_code choose_name(struct transfer *t)
{
    const char *name = t->job->name ? t->job->name : t->url.name;
    if (!transfer_is_file_name(name))
        return kiln_fail(t->err, KILN_INVALID,
                         "the URL does not end in a file name: give the package a name like "
                         "'gfx90a68.kdb'");
    unpacked_name(name, t->result->name);
    return t->job->of_user ? KILN_OK
                           : package_name_check(t->result->name, /* ret_id= */ NULL, t->err);
}

/* Checks that the file name in the signed manifest and the package's name state the same device.
 * Otherwise a package could be installed under the name of another device. */
static enum kiln_code check_signed_name(struct transfer *t)
{
    char signed_name[NAME_SIZE];
    if (!t->provenance.has_manifest || t->job->of_user)
        return KILN_OK;
    if (!transfer_is_file_name(fetched_name(t)))
        return kiln_fail(t->err, KILN_DENIED, "the manifest signs no file name");
    unpacked_name(fetched_name(t), signed_name);
    return package_names_agree(signed_name, t->result->name, t->err);
}

static enum kiln_code open_source(struct transfer *t)
{
    if (!t->job->url) {
        t->source_fd = t->job->content_fd;
        return t->source_fd >= 0
                   ? KILN_OK
                   : kiln_fail(t->err, KILN_INVALID, "the request has neither a URL nor a file");
    }
    enum kiln_code rc = url_parse(t->job->url, &t->url, t->err);
    if (rc)
        return rc;
    snprintf(t->result->source, sizeof(t->result->source), "%s", t->url.shown);
    if (t->url.scheme != URL_FILE)
        return KILN_OK;
    t->source_fd = t->job->content_fd; /* not -1 if transfer_reach has opened the file already */
    if (t->source_fd >= 0)
        return KILN_OK;
    /* O_NONBLOCK, so that opening a pipe does not wait for the pipe's other end. */
    t->opened_fd = open(t->url.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    t->source_fd = t->opened_fd;
    if (t->opened_fd < 0)
        return kiln_fail_errno(t->err, errno, "cannot open '%s'", t->url.shown);
    return KILN_OK;
}

static enum kiln_code open_file(struct transfer *t, const char *name)
{
    fd_auto(&t->file_fd);
    t->file_fd = openat(t->directory_fd, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    if (t->file_fd < 0)
        return kiln_fail_errno(t->err, errno, "cannot create a file in '%s'", t->job->staging);
    return KILN_OK;
}

/* Sets the size limit of the next file. For a file that a user imports, the limit also depends on
 * the free space, so that neither the fetched nor the unpacked file fills the disk. */
static void choose_limit(struct transfer *t)
{
    struct statvfs disk;
    t->limit = (struct copy_limit){ t->job->size_limit, "the setting package_limit" };
    if (!t->job->of_user)
        return;
    t->limit.name = "the limit for an imported cache: the setting package_limit, or four times the "
                    "setting cache_limit if that is less";
    if (t->job->unchecked)
        t->limit.name = "the limit for a tuning file";
    if (fstatvfs(t->directory_fd, &disk) != 0)
        return;
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    uint64_t share = free_bytes / (t->job->disk_part ? t->job->disk_part : 2);
    if (share < t->limit.bytes)
        t->limit = (struct copy_limit){ share, "its share of the free space on the disk of kilnd's "
                                               "state directory: free more space there" };
}

static enum kiln_code open_staging(struct transfer *t)
{
    t->directory_fd = open(t->job->staging, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->directory_fd < 0)
        return kiln_fail_errno(t->err, errno, "cannot open the directory '%s'", t->job->staging);
    int size = snprintf(t->result->path, sizeof(t->result->path), "%s/%s", t->job->staging,
                        t->result->name);
    choose_limit(t);
    if (size < 0 || (size_t)size >= sizeof(t->result->path))
        return kiln_fail(t->err, KILN_INVALID, "the path of '%.80s' would be too long",
                         t->result->name);
    return KILN_OK;
}

static enum kiln_code fetch_file(struct transfer *t)
{
    if (t->source_fd >= 0) {
        enum kiln_code rc = copy_file(t->source_fd, t->file_fd, &t->limit, t->sink, t->err);
        return rc && t->url.text ? kiln_while(t->err, "fetching '%s'", t->url.shown) : rc;
    }
    const struct fetch_request request = {
        .url = &t->url,
        .size_limit = t->limit.bytes,
        .policy = t->policy,
        .progress = t->sink->progress,
        .context = t->sink->context,
    };
    return fetch(&request, t->file_fd, NULL, t->err);
}

static enum kiln_code fetch_and_verify(struct transfer *t)
{
    struct digest sha256;
    const struct provenance_source source = { .job = t->job,
                                              .url = t->url.text ? &t->url : NULL,
                                              .fetched_name = fetched_name(t),
                                              .policy = t->policy };
    enum kiln_code rc = provenance_find(&source, &t->provenance, &t->manifest, t->err);
    if (!rc)
        rc = check_signed_name(t);
    if (!rc)
        rc = open_file(t, TRANSFER_FETCHED);
    if (!rc)
        rc = fetch_file(t);
    if (!rc)
        rc = sha256_of_file(t->file_fd, &sha256, &t->fetched, t->err);
    if (!rc)
        rc = provenance_check(&t->provenance, t->fetched, &sha256, t->err);
    if (!rc)
        digest_to_hex(&sha256, t->result->sha256);
    return rc;
}

static void on_unpacked(void *context, uint64_t read)
{
    const struct transfer *t = context;
    const struct transfer_progress progress = {
        .stage = "unpacking", .done = read, .total = t->fetched, .attempt = 1, .note = ""
    };
    t->sink->progress(t->sink->context, &progress);
}

static enum kiln_code unpack_file(struct transfer *t)
{
    struct digest sha256;
    KILN_AUTO(fd) int packed = t->file_fd;
    t->file_fd = -1;
    enum kiln_code rc = open_file(t, t->result->name);
    if (rc)
        return rc;
    if (lseek(packed, 0, SEEK_SET) < 0)
        return kiln_fail_errno(t->err, errno, "cannot read the fetched file");
    choose_limit(t); /* again, because the fetched file has reduced the free space */
    const struct bzip2_progress progress = { on_unpacked, t };
    rc = bzip2_unpack_file(packed, t->file_fd, t->limit.bytes, &progress, t->err);
    if (rc == KILN_FULL)
        return kiln_while(t->err, "unpacking (the limit is %s)", t->limit.name);
    if (rc)
        return kiln_while(t->err, "unpacking");
    unlinkat(t->directory_fd, TRANSFER_FETCHED, 0);
    rc = sha256_of_file(t->file_fd, &sha256, &t->result->size, t->err);
    if (!rc)
        digest_to_hex(&sha256, t->result->sha256);
    return rc;
}

static enum kiln_code rename_fetched(struct transfer *t)
{
    t->result->size = t->fetched;
    if (renameat(t->directory_fd, TRANSFER_FETCHED, t->directory_fd, t->result->name) < 0)
        return kiln_fail_errno(t->err, errno, "cannot name the file '%s'", t->result->name);
    return KILN_OK;
}

static enum kiln_code finish_file(struct transfer *t)
{
    /* The content decides whether the file is packed, not its name: some servers decompress files
     * before they send them. */
    enum kiln_code rc = bzip2_is_packed(t->file_fd) ? unpack_file(t) : rename_fetched(t);
    if (rc)
        return rc;
    if (fchmod(t->file_fd, 0644) < 0)
        return kiln_fail_errno(t->err, errno, "cannot let kilnd read '%s'", t->result->name);
    if (t->job->unchecked)
        return KILN_OK;
    if (t->job->of_user)
        return check_cache(t->result->path, t->sink, &t->result->rows, t->err);
    return check_package_rows(t->result->path, t->sink, &t->result->rows, t->err);
}

static enum kiln_code write_manifest(struct transfer *t)
{
    if (!t->provenance.has_manifest)
        return KILN_OK;
    snprintf(t->result->fetched, sizeof(t->result->fetched), "%s", fetched_name(t));
    KILN_AUTO(fd)
    int fd =
        openat(t->directory_fd, TRANSFER_MANIFEST, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0)
        return kiln_fail_errno(t->err, errno, "cannot create a file in '%s'", t->job->staging);
    return fs_write_all(fd, buffer_view(&t->manifest), t->err);
}

static enum kiln_code run_transfer(struct transfer *t)
{
    enum kiln_code rc = open_source(t);
    if (!rc)
        rc = choose_name(t);
    if (!rc)
        rc = open_staging(t);
    if (!rc)
        rc = fetch_and_verify(t);
    if (!rc)
        rc = finish_file(t);
    return rc ? rc : write_manifest(t);
}

void transfer_run(const struct transfer_job *job, const struct fetch_policy *policy,
                  const struct transfer_sink *sink, struct transfer_result *ret_result)
{
    *ret_result = (struct transfer_result){ .err = KILN_ERR_INIT };
    __attribute__((cleanup(transfer_done))) struct transfer t = {
        .job = job,
        .policy = policy,
        .sink = sink,
        .source_fd = -1,
        .opened_fd = -1,
        .directory_fd = -1,
        .file_fd = -1,
        .result = ret_result,
        .err = &ret_result->err,
    };
    buffer_init(&t.manifest, TRANSFER_MANIFEST_MAX);
    enum kiln_code rc = run_transfer(&t);
    if (rc && t.directory_fd >= 0) {
        unlinkat(t.directory_fd, TRANSFER_FETCHED, 0);
        unlinkat(t.directory_fd, TRANSFER_MANIFEST, 0);
        unlinkat(t.directory_fd, ret_result->name, 0);
    }
    if (!rc)
        ret_result->err = KILN_ERR_INIT;
    snprintf(ret_result->signer, sizeof(ret_result->signer), "%s", t.provenance.signer);
}
