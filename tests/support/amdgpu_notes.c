/* SPDX-License-Identifier: MIT */
#include "tests/support/amdgpu_notes.h"

#include "engine/compile/elf_image.h"

#include <string.h>

#define NOTE_METADATA 32u
#define DEPTH_MAX 16u

enum kind { KIND_NUMBER, KIND_TEXT, KIND_LIST, KIND_MAP, KIND_OTHER };

struct value {
    enum kind kind;
    /* an integer's value, a list's number of items, or a map's number of pairs */
    uint64_t number;
    struct bytes text; /* borrowed */
};

static uint64_t big_endian(struct reader *r, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++)
        number = number << 8 | reader_u8(r);
    return number;
}

static struct value sized(struct reader *r, enum kind kind, uint64_t size)
{
    struct value v = { .kind = kind, .number = size };
    if (kind == KIND_TEXT || kind == KIND_OTHER)
        v.text = reader_take(r, size);
    return v;
}

/* Reads a value whose type byte is 0xc0 or larger. For most of these types, the value's length
 * or the number itself follows, in one to eight bytes (big-endian). */
static struct value long_form(struct reader *r, uint8_t type)
{
    switch (type) {
    case 0xc4:
    case 0xc5:
    case 0xc6: return sized(r, KIND_OTHER, big_endian(r, (size_t)1 << (type - 0xc4)));
    case 0xc7:
    case 0xc8:
    case 0xc9: return sized(r, KIND_OTHER, big_endian(r, (size_t)1 << (type - 0xc7)) + 1);
    case 0xca: return sized(r, KIND_OTHER, 4);
    case 0xcb: return sized(r, KIND_OTHER, 8);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf: return sized(r, KIND_NUMBER, big_endian(r, (size_t)1 << (type - 0xcc)));
    case 0xd0: /* skips signed integers, because all numbers that the tests read are unsigned */
    case 0xd1:
    case 0xd2:
    case 0xd3: return sized(r, KIND_OTHER, (uint64_t)1 << (type - 0xd0));
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8: return sized(r, KIND_OTHER, ((uint64_t)1 << (type - 0xd4)) + 1);
    case 0xd9:
    case 0xda:
    case 0xdb: return sized(r, KIND_TEXT, big_endian(r, (size_t)1 << (type - 0xd9)));
    case 0xdc:
    case 0xdd: return sized(r, KIND_LIST, big_endian(r, (size_t)2 << (type - 0xdc)));
    case 0xde:
    case 0xdf: return sized(r, KIND_MAP, big_endian(r, (size_t)2 << (type - 0xde)));
    default: return sized(r, KIND_OTHER, 0);
    }
}

/* Reads one value. For a list or a map, reads only the number of items or pairs, which the
 * caller reads next. */
static struct value take(struct reader *r)
{
    uint8_t type = reader_u8(r);
    if (type < 0x80)
        return sized(r, KIND_NUMBER, type);
    if (type < 0x90)
        return sized(r, KIND_MAP, type & 0xfu);
    if (type < 0xa0)
        return sized(r, KIND_LIST, type & 0xfu);
    if (type < 0xc0)
        return sized(r, KIND_TEXT, type & 0x1fu);
    return long_form(r, type);
}

static void skip_inside(struct reader *r, struct value v, unsigned depth)
{
    uint64_t left = v.kind == KIND_MAP ? 2 * v.number : v.kind == KIND_LIST ? v.number : 0;
    r->failed |= depth > DEPTH_MAX;
    for (; left > 0 && !r->failed; left--) {
        struct value inner = take(r);
        skip_inside(r, inner, depth + 1);
    }
}

static void take_field(struct reader *r, struct amdgpu_kernel *kernel)
{
    const struct {
        const char *key;
        uint64_t *number;
    } fields[] = {
        { ".vgpr_count", &kernel->vgprs },
        { ".agpr_count", &kernel->agprs },
        { ".sgpr_count", &kernel->sgprs },
        { ".vgpr_spill_count", &kernel->vgpr_spills },
        { ".sgpr_spill_count", &kernel->sgpr_spills },
        { ".group_segment_fixed_size", &kernel->lds },
        { ".private_segment_fixed_size", &kernel->scratch },
        { ".wavefront_size", &kernel->wave },
    };
    struct value key = take(r), value = take(r);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (value.kind == KIND_NUMBER && bytes_equal_text(key.text, fields[i].key))
            *fields[i].number = value.number;
    if (value.kind == KIND_TEXT && bytes_equal_text(key.text, ".name"))
        kernel->name = value.text;
    skip_inside(r, value, 0);
}

static size_t take_kernels(struct reader *r, struct value list, amdgpu_kernel_found *found,
                           void *context)
{
    size_t count = 0;
    r->failed |= list.kind != KIND_LIST;
    for (; count < list.number && !r->failed; count++) {
        struct amdgpu_kernel kernel = { .vgprs = 0 };
        struct value map = take(r);
        r->failed |= map.kind != KIND_MAP;
        for (uint64_t i = 0; i < map.number && !r->failed; i++)
            take_field(r, &kernel);
        if (!r->failed)
            found(context, &kernel);
    }
    return count;
}

size_t amdgpu_metadata_kernels(struct bytes metadata, amdgpu_kernel_found *found, void *context)
{
    struct reader r = reader_of(metadata);
    struct value top = take(&r);
    size_t count = 0;
    r.failed |= top.kind != KIND_MAP;
    for (uint64_t i = 0; i < top.number && !r.failed; i++) {
        struct value key = take(&r), value = take(&r);
        if (bytes_equal_text(key.text, "amdhsa.kernels"))
            count += take_kernels(&r, value, found, context);
        else
            skip_inside(&r, value, 0);
    }
    return r.failed ? SIZE_MAX : count;
}

static struct bytes metadata_of(struct bytes notes)
{
    struct reader r = reader_of(notes);
    while (reader_left(&r) >= sizeof(Elf64_Nhdr)) {
        uint32_t name_size = reader_u32(&r), size = reader_u32(&r), type = reader_u32(&r);
        struct bytes name = reader_take(&r, name_size);
        reader_take(&r, -name_size & 3u);
        struct bytes content = reader_take(&r, size);
        if (!r.failed && type == NOTE_METADATA && name.size == sizeof("AMDGPU") &&
            memcmp(name.data, "AMDGPU", sizeof("AMDGPU")) == 0)
            return content;
        reader_take(&r, -size & 3u);
    }
    return bytes_of(NULL, 0);
}

size_t amdgpu_kernels(struct bytes object, amdgpu_kernel_found *found, void *context)
{
    struct elf_image image;
    if (!elf_image_open(object, &image))
        return SIZE_MAX;
    for (size_t i = 0; i < elf_section_count(&image); i++) {
        Elf64_Shdr section;
        struct bytes notes;
        if (!elf_section(&image, i, &section, &notes) || section.sh_type != SHT_NOTE)
            continue;
        struct bytes metadata = metadata_of(notes);
        if (metadata.size)
            return amdgpu_metadata_kernels(metadata, found, context);
    }
    return SIZE_MAX;
}
