/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_push.h"

#include "engine/fleet/fleet_record.h"

static enum kiln_code push_record(struct fleet_pushing *p, const struct fleet_record *record,
                                  uint8_t *bytes, struct kiln_err *err)
{
    char shard_id[FLEET_SHARD_ID_SIZE], name[FLEET_NAME_MAX];
    bool added = false;
    fleet_shard_id(&record->claim.shard, shard_id);
    fleet_name_loose(shard_id, &record->claim.key, name);
    fleet_record_sign(p->signer, bytes);
    enum kiln_code rc =
        p->store->ops->add(p->store, name, bytes_of(bytes, record->size), &added, err);
    p->added += !rc && added;
    p->present += !rc && !added;
    return rc;
}

enum kiln_code fleet_push(struct fleet_pushing *pushing, uint8_t *records, size_t size,
                          struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t at = 0; !rc && at < size;) {
        struct fleet_record record;
        if (!fleet_record_read(bytes_of(records + at, size - at), &record))
            return kiln_fail(err, KILN_CORRUPT, "there is no record of a kernel at byte %zu", at);
        rc = push_record(pushing, &record, records + at, err);
        at += record.size;
    }
    return rc;
}
