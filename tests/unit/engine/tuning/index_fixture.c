/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "index_fixture.h"

#include "common/base/fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* The made records have three spatial sizes and many batch sizes. Every seventh key does not stand
 * for a problem. Every third record has ids. */
void make_record(unsigned place, struct made_record *ret)
{
    unsigned size = 14u << place % 3;
    if (place % 7 == 6)
        snprintf(ret->key, sizeof(ret->key), "verbatim-%u", place);
    else
        snprintf(ret->key, sizeof(ret->key), "64-%u-%u-3x3-64-%u-%u-%u-1x1-1x1-1x1-0-NCHW-FP32-F",
                 size, size, size, size, place + 1);
    snprintf(ret->value, sizeof(ret->value), "ConvA:%u.5,0,%.*s;ConvB:0.25,%u,direct", place,
             (int)(place % 60), "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
             place);
    for (unsigned i = 0; i < 3; i++)
        ret->ids[i] = 3 * place + i;
    bool has_ids = place % 3 == 0;
    ret->record = (struct tuning_index_record){
        .key = bytes_of_text(ret->key),
        .value = bytes_of_text(ret->value),
        .kin = kinship_of_key(TUNING_FIND, bytes_of_text(ret->key), &ret->names),
        .number = place + 100,
        .ids = has_ids ? ret->ids : NULL,
        .id_count = has_ids ? 3 : 0,
    };
}

void write_index(struct index_fixture *f, unsigned count)
{
    KILN_AUTO(tuning_index_builder) struct tuning_index_builder *builder = NULL;
    must(tuning_index_builder_create(TUNING_FIND, &builder, &f->err), f->err);
    for (unsigned i = 0; i < count; i++) {
        struct made_record made;
        make_record(i, &made);
        must(tuning_index_builder_add(builder, &made.record, &f->err), f->err);
    }
    must(tuning_index_builder_write(builder, f->path, &f->digest, &f->err), f->err);
}

struct tuning_index *open_index(struct index_fixture *f)
{
    struct tuning_index *index = NULL;
    must(tuning_index_open(f->path, &index, &f->err), f->err);
    return index;
}
