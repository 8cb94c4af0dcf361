/* SPDX-License-Identifier: MIT */
/* The request fleet_export writes records of the fleet's tree, one for each kernel that this kilnd
 * compiled. kilnctl then signs these records. */
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/service/fleet/fleet_kernel.h"
#include "engine/service/kernels/store_tasks.h"
#include "engine/service/packages/packages.h"
#include "engine/service/requests/admin.h"
#include "engine/service/requests/exported_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define KEYS_A_PAGE 256u
#define STEP_NS 20000000u
#define STEP_BYTES (4u << 20)

static const struct admin_member fleet_members[] = { { "target", MEMBER_TEXT }, { 0 } };

struct fleet_export {
    struct digest keys[KEYS_A_PAGE];
    struct digest damaged_keys[KEYS_A_PAGE];
    size_t count, next, damaged_count;
    struct digest last;
    size_t seen;
    bool is_begun, is_listed;
    struct codec *codec; /* owned */
    struct buffer records;
    char path[PATH_MAX]; /* "": no file is open */
    int fd;
    struct export_space space;
    uint64_t size, kernels, left_out, damaged;
};

static void note_key(void *context, const struct kernel_record *r)
{
    struct fleet_export *x = context;
    x->last = r->key;
    x->seen++;
    if (fleet_kernel_is_own(r) && r->raw_size <= FLEET_OBJECT_MAX)
        x->keys[x->count++] = r->key;
    else
        x->left_out += fleet_kernel_is_own(r);
}

static enum kiln_code list_page(struct admin *a, struct fleet_export *x)
{
    const struct digest after = x->last;
    const struct kernel_page page = {
        .filter = { .by_scope = true,
                    .scope = KERNEL_SCOPE_EVERYONE,
                    .kinds = KERNELS_OF(OBJECT_CODE),
                    .target = json_get_text(a->base.question, "target", "") },
        .after = x->seen ? &after : NULL,
        .max = KEYS_A_PAGE,
    };
    x->count = x->next = x->seen = 0;
    enum kiln_code rc = kernel_store_list(a->base.engine->store, &page, note_key, x, &a->base.err);
    x->is_listed = x->seen < KEYS_A_PAGE;
    return rc;
}

static void note_damaged(struct fleet_export *x, const struct digest *key)
{
    x->damaged++;
    if (x->damaged_count < KEYS_A_PAGE)
        x->damaged_keys[x->damaged_count++] = *key;
}

static enum kiln_code export_kernel(struct admin *a, struct fleet_export *x,
                                    const struct digest *key)
{
    struct fleet_recording recording = { .store = a->base.engine->store,
                                         .codec = x->codec,
                                         .records = &x->records };
    enum kiln_code rc = fleet_kernel_record(&recording, key, &a->base.err);
    if (recording.is_damaged)
        note_damaged(x, key);
    x->kernels += recording.is_written;
    x->left_out += recording.is_left_out;
    return rc;
}

static enum kiln_code open_file(struct admin *a, struct fleet_export *x)
{
    snprintf(x->path, sizeof(x->path), "%s/fleet-%p", packages_staging(a->base.engine), (void *)a);
    x->fd = open(x->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (x->fd >= 0)
        return KILN_OK;
    int error = errno;
    x->path[0] = '\0';
    return kiln_fail_errno(&a->base.err, error, "cannot write records of kernels");
}

static enum kiln_code write_file(struct admin *a, struct fleet_export *x)
{
    x->space.to = (struct export_receiver){ .uid = a->base.uid, .is_admin = a->base.is_admin };
    x->size += x->records.size;
    enum kiln_code rc =
        exported_files_reserve(a->base.engine->exported, packages_staging(a->base.engine), x->size,
                               &x->space, &a->base.err);
    if (!rc && !x->path[0])
        rc = open_file(a, x);
    if (!rc)
        rc = fs_write_all(x->fd, buffer_view(&x->records), &a->base.err);
    buffer_clear(&x->records);
    return rc;
}

static enum kiln_code begin_export(struct admin *a, struct fleet_export *x)
{
    x->is_begun = true;
    buffer_init(&x->records, STEP_BYTES + FLEET_RECORD_MAX);
    return codec_create(&x->codec, &a->base.err);
}

static enum kiln_code export_some(struct admin *a, struct fleet_export *x)
{
    const uint64_t end_ns = clock_monotonic_ns() + STEP_NS;
    enum kiln_code rc = x->is_begun ? KILN_OK : begin_export(a, x);
    while (!rc && (x->next < x->count || !x->is_listed) && x->records.size < STEP_BYTES &&
           clock_monotonic_ns() < end_ns)
        rc = x->next < x->count ? export_kernel(a, x, &x->keys[x->next++]) : list_page(a, x);
    return rc || x->records.size == 0 ? rc : write_file(a, x);
}

static void answer_export(const struct admin *a, const struct fleet_export *x)
{
    struct json *answer = a->base.answer;
    json_set_u64(answer, "kernels", x->kernels);
    json_set_u64(answer, "size", x->size);
    json_set_u64(answer, "left_out", x->left_out);
    json_set_u64(answer, "damaged", x->damaged);
}

static enum kiln_code finish_file(struct admin *a, struct fleet_export *x)
{
    if (x->kernels == 0)
        return kiln_fail(&a->base.err, KILN_NOT_FOUND,
                         "there are no kernels to export: only kernels that this kilnd compiled "
                         "and still stores are shared with the fleet");
    fd_close(&x->fd);
    enum kiln_code rc = exported_files_open(a->base.engine->exported, x->path, &x->space,
                                            &a->files[0], &a->base.err);
    unlink(x->path);
    x->path[0] = '\0';
    a->file_count = !rc;
    answer_export(a, x);
    return rc;
}

static enum kiln_code work_fleet(struct admin *a)
{
    struct fleet_export *x = a->own;
    enum kiln_code rc = a->base.rc ? a->base.rc : export_some(a, x);
    a->more = !rc && (x->next < x->count || !x->is_listed);
    return rc || a->more ? rc : finish_file(a, x);
}

static void begin_fleet(struct admin *a)
{
    struct deferred *d = &a->base;
    if (!d->caller)
        d->rc = d->err.code = KILN_CANCELLED;
    else if (d->engine->draining)
        d->rc = kiln_fail(&d->err, KILN_UNAVAILABLE, "kilnd is stopping: try again");
}

static void fleet_step_ended(struct admin *a)
{
    struct fleet_export *x = a->own;
    while (x->damaged_count > 0)
        quarantine_later(a->base.engine, &x->damaged_keys[--x->damaged_count]);
}

static void release_fleet(void *own)
{
    struct fleet_export *x = own;
    if (x->path[0]) {
        unlink(x->path);
        fd_close(&x->fd);
    }
    codec_destroy(x->codec);
    buffer_done(&x->records);
    export_space_release(&x->space);
}

static const struct admin_kind fleet_kind = {
    .work_queue = WORK_QUEUE_READ,
    .scans = true,
    .removes = true,
    .follows_writes = true,
    .own_size = sizeof(struct fleet_export),
    .members = fleet_members,
    .begin = begin_fleet,
    .work = work_fleet,
    .ended = fleet_step_ended,
    .release = release_fleet,
};

ADMIN_HANDLER(fleet_export, fleet_kind)
