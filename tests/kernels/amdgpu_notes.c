/* SPDX-License-Identifier: MIT */
#include "tests/support/amdgpu_notes.h"

#include "tests/support/test.h"

#include <elf.h>
#include <string.h>

/* This JSON as MessagePack: {"amdhsa.version": [1, 2], "amdhsa.kernels": [{".args": [{}, nil],
 * ".name": "k", ".kd": -1, ".vgpr_count": 200, ".private_segment_fixed_size": 0x10000, ".lds":
 * 1.0}]} */
static const char metadata[] = "\x82"
                               "\xae"
                               "amdhsa.version"
                               "\x92\x01\x02"
                               "\xd9\x0e"
                               "amdhsa.kernels"
                               "\x91\x86"
                               "\xa5"
                               ".args"
                               "\x92\x80\xc0"
                               "\xa5"
                               ".name"
                               "\xa1"
                               "k"
                               "\xa3"
                               ".kd"
                               "\xff"
                               "\xab"
                               ".vgpr_count"
                               "\xcc\xc8"
                               "\xbb"
                               ".private_segment_fixed_size"
                               "\xce\x00\x01\x00\x00"
                               "\xa4"
                               ".lds"
                               "\xca\x3f\x80\x00\x00";

struct seen {
    unsigned count;
    struct amdgpu_kernel last;
};

static void see(void *context, const struct amdgpu_kernel *kernel)
{
    struct seen *seen = context;
    seen->count++;
    seen->last = *kernel;
}

TEST(plain, a_kernels_resources_are_read_past_unknown_notes)
{
    struct seen seen = { .count = 0 };
    assert_int_equal(amdgpu_metadata_kernels(bytes_of(metadata, sizeof(metadata) - 1), see, &seen),
                     1);
    assert_int_equal(seen.count, 1);
    assert_true(bytes_equal_text(seen.last.name, "k"));
    assert_int_equal(seen.last.vgprs, 200);
    assert_int_equal(seen.last.scratch, 0x10000);
    assert_int_equal(seen.last.agprs, 0);
}

TEST(plain, metadata_cut_anywhere_is_damaged)
{
    struct seen seen = { .count = 0 };
    for (size_t size = 0; size < sizeof(metadata) - 1; size++)
        assert_true(amdgpu_metadata_kernels(bytes_of(metadata, size), see, &seen) == SIZE_MAX);
}

TEST(plain, nesting_without_end_is_damaged)
{
    struct seen seen = { .count = 0 };
    char lists[4096] = "\x81\xa1x";
    memset(lists + 3, 0x91, sizeof(lists) - 3);
    assert_true(amdgpu_metadata_kernels(bytes_of(lists, sizeof(lists)), see, &seen) == SIZE_MAX);
}

TEST(plain, kernels_that_are_no_list_of_maps_are_damaged)
{
    struct seen seen = { .count = 0 };
    static const char number[] = "\x81\xae"
                                 "amdhsa.kernels"
                                 "\x01";
    static const char numbers[] = "\x81\xae"
                                  "amdhsa.kernels"
                                  "\x91\x01";
    assert_true(amdgpu_metadata_kernels(bytes_of(number, sizeof(number) - 1), see, &seen) ==
                SIZE_MAX);
    assert_true(amdgpu_metadata_kernels(bytes_of(numbers, sizeof(numbers) - 1), see, &seen) ==
                SIZE_MAX);
    assert_int_equal(seen.count, 0);
}

struct object {
    Elf64_Ehdr header;
    Elf64_Shdr sections[2];
    Elf64_Nhdr note;
    char name[8];
    char content[sizeof(metadata) - 1];
};

static struct object object_with_note(uint32_t type)
{
    struct object o = {
        .header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
                    .e_shoff = offsetof(struct object, sections),
                    .e_shentsize = sizeof(Elf64_Shdr),
                    .e_shnum = 2 },
        .sections = { { .sh_type = SHT_NULL },
                      { .sh_type = SHT_NOTE,
                        .sh_offset = offsetof(struct object, note),
                        .sh_size = sizeof(o) - offsetof(struct object, note) } },
        .note = { .n_namesz = 7, .n_descsz = sizeof(o.content), .n_type = type },
        .name = "AMDGPU",
    };
    memcpy(o.content, metadata, sizeof(o.content));
    return o;
}

TEST(plain, the_note_is_found_among_the_sections)
{
    struct seen seen = { .count = 0 };
    struct object o = object_with_note(32);
    assert_int_equal(amdgpu_kernels(bytes_of(&o, sizeof(o)), see, &seen), 1);
    assert_int_equal(seen.last.vgprs, 200);
}

TEST(plain, an_object_without_the_note_says_nothing)
{
    struct seen seen = { .count = 0 };
    struct object o = object_with_note(3);
    assert_true(amdgpu_kernels(bytes_of(&o, sizeof(o)), see, &seen) == SIZE_MAX);
    assert_true(amdgpu_kernels(bytes_of("no ELF", 6), see, &seen) == SIZE_MAX);
    o = object_with_note(32);
    o.note.n_descsz++;
    assert_true(amdgpu_kernels(bytes_of(&o, sizeof(o)), see, &seen) == SIZE_MAX);
}
