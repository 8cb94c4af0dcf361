/* SPDX-License-Identifier: MIT */
#include "engine/service/fleet/fleet_kernel.h"

bool fleet_kernel_is_own(const struct kernel_record *r)
{
    bool is_named = r->database_id && r->database_id[0];
    bool is_packaged = r->package && r->package[0];
    return r->kind == OBJECT_CODE && !r->is_private && !is_named && !is_packaged &&
           digest_is_known(&r->toolchain_id) && !digest_is_known(&r->client_key);
}

struct writing {
    struct fleet_recording *recording;
    const struct object *object;
    struct bytes raw;
    enum kiln_code rc;
    struct kiln_err *err;
};

/* Appends the kernel's record, after it checks again that this kilnd compiled the kernel. Since the
 * kernel was listed, the store may have replaced it by another kernel with the same key, for
 * example one that came late from the fleet. */
static void write_record(void *context, const struct kernel_record *r)
{
    struct writing *w = context;
    if (!fleet_kernel_is_own(r) || !digest_equal(&r->object, &w->object->digest)) {
        w->rc = KILN_NOT_FOUND;
        return;
    }
    const struct fleet_claim claim = {
        .key = r->key,
        .source_id = r->source_id,
        .headers_id = r->headers_id,
        .shard = { .target = bytes_of_text(r->target),
                   .toolchain = bytes_of_text(r->toolchain),
                   .toolchain_id = r->toolchain_id },
        .program = bytes_of_text(r->program),
        .options = bytes_of_text(r->options),
        .version = bytes_of_text(r->version),
        .compile_ns = r->compile_ns,
        .time = r->created,
    };
    w->rc = fleet_record_write(w->recording->codec, &claim, w->raw, w->recording->records, w->err);
}

static enum kiln_code record_object(struct fleet_recording *recording, const struct digest *key,
                                    const struct object *object, struct kiln_err *err)
{
    OBJECT_VIEW_AUTO struct object_view view = { 0 };
    enum kiln_code rc = object_view_open(object, &view, err);
    struct writing w = { .recording = recording, .object = object, .raw = view.bytes, .err = err };
    if (!rc)
        rc = kernel_store_show(recording->store, key, write_record, &w, err);
    if (rc)
        return rc;
    recording->is_left_out = w.rc == KILN_INVALID;
    recording->is_written = !w.rc;
    return recording->is_left_out ? KILN_OK : w.rc;
}

enum kiln_code fleet_kernel_record(struct fleet_recording *recording, const struct digest *key,
                                   struct kiln_err *err)
{
    struct object *object = NULL;
    recording->is_written = recording->is_left_out = false;
    enum kiln_code rc =
        kernel_store_get(recording->store, key, &object, &recording->is_damaged, err);
    if (!rc)
        rc = record_object(recording, key, object, err);
    object_unref(object);
    return rc == KILN_NOT_FOUND ? KILN_OK : rc; /* the kernel was evicted or replaced meanwhile */
}
