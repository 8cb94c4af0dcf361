/* SPDX-License-Identifier: MIT */
#include "engine/compile/code_object.h"
#include "engine/compile/elf_image.h"
#include "tests/support/test.h"

#include <string.h>

#define MACHINE_AMDGPU 224
#define MACHINE_CUDA 190

/* A file with two sections: an empty section 0, and notes with a build id. */
struct small_elf {
    Elf64_Ehdr header;
    uint8_t notes[20];
    Elf64_Shdr sections[2];
};

static struct target target_of(const char *text)
{
    struct target t;
    struct kiln_err err = KILN_ERR_INIT;
    must(target_parse(bytes_of_text(text), &t, &err), err);
    return t;
}

static struct small_elf elf_of(unsigned machine, unsigned flags, unsigned abi)
{
    struct small_elf e = { 0 };
    memcpy(e.header.e_ident, ELFMAG, SELFMAG);
    e.header.e_ident[EI_CLASS] = ELFCLASS64;
    e.header.e_ident[EI_DATA] = ELFDATA2LSB;
    e.header.e_ident[EI_ABIVERSION] = (unsigned char)abi;
    e.header.e_machine = (Elf64_Half)machine;
    e.header.e_flags = flags;
    memcpy(e.notes, "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0\1\2\3\4", sizeof(e.notes));
    e.sections[1] = (Elf64_Shdr){ .sh_type = SHT_NOTE,
                                  .sh_offset = offsetof(struct small_elf, notes),
                                  .sh_size = sizeof(e.notes) };
    e.header.e_shoff = offsetof(struct small_elf, sections);
    e.header.e_shentsize = sizeof(Elf64_Shdr);
    e.header.e_shnum = 2;
    return e;
}

static enum kiln_code check(const struct small_elf *e, const char *target, struct kiln_err *err)
{
    struct target t = target_of(target);
    *err = KILN_ERR_INIT;
    return code_object_check(bytes_of(e, sizeof(*e)), &t, err);
}

TEST(plain, accepts_an_amd_object_for_its_arch)
{
    struct kiln_err err;
    struct small_elf e = elf_of(MACHINE_AMDGPU, 0x4c | 0x100 | 0x400, 3);
    must(check(&e, "gfx942", &err), err);
    assert_int_equal(check(&e, "gfx90a", &err), KILN_CORRUPT);
    assert_says(err.text, "gfx942");
}

TEST(plain, checks_the_features_that_a_target_names)
{
    struct kiln_err err;
    struct small_elf e = elf_of(MACHINE_AMDGPU, 0xe3f, 3); /* gfx90a, xnack off, sramecc on */
    must(check(&e, "gfx90a", &err), err);
    must(check(&e, "gfx90a:sramecc+:xnack-", &err), err);
    assert_int_equal(check(&e, "gfx90a:sramecc+:xnack+", &err), KILN_CORRUPT);
    assert_says(err.text, "xnack+");
    assert_int_equal(check(&e, "gfx90a:sramecc-", &err), KILN_CORRUPT);
    assert_says(err.text, "sramecc-");
}

TEST(plain, an_object_for_either_state_of_a_feature_suits_both)
{
    struct small_elf either = elf_of(MACHINE_AMDGPU, 0x3f | 0x100 | 0x400, 3),
                     off = elf_of(MACHINE_AMDGPU, 0x3f | 0x200 | 0x400, 3),
                     old = elf_of(MACHINE_AMDGPU, 0x3f, 1);
    struct target plain = target_of("gfx90a"), with = target_of("gfx90a:sramecc+:xnack+"),
                  without = target_of("gfx90a:xnack-"), cl = target_of("opencl:cpu");
    struct bytes object = bytes_of(&either, sizeof(either));
    assert_true(code_object_suits(object, &plain));
    assert_true(code_object_suits(object, &with));
    assert_true(code_object_suits(object, &without));
    object = bytes_of(&off, sizeof(off));
    assert_true(code_object_suits(object, &plain));
    assert_false(code_object_suits(object, &with));
    assert_true(code_object_suits(object, &without));
    /* Objects of old versions do not state their features. */
    assert_true(code_object_suits(bytes_of(&old, sizeof(old)), &with));
    assert_false(code_object_suits(bytes_of_text("text"), &plain));
    assert_true(code_object_suits(bytes_of_text("text"), &cl));
}

TEST(plain, believes_a_processor_newer_than_its_table)
{
    struct kiln_err err;
    struct small_elf unknown = elf_of(MACHINE_AMDGPU, 0xfe, 3),
                     known = elf_of(MACHINE_AMDGPU, 0x4c, 3);
    must(check(&unknown, "gfx1999", &err), err);
    assert_int_equal(check(&known, "gfx1999", &err), KILN_CORRUPT);
    assert_int_equal(check(&unknown, "gfx942", &err), KILN_CORRUPT);
    assert_says(err.text, "number 0xfe");
}

TEST(plain, reads_the_sm_number_of_old_and_new_cubins)
{
    struct kiln_err err;
    struct small_elf cuda_13 = elf_of(MACHINE_CUDA, 0x06005a04, 8);
    struct small_elf cuda_12 = elf_of(MACHINE_CUDA, 0x005a055a, 7);
    must(check(&cuda_13, "sm_90", &err), err);
    must(check(&cuda_12, "sm_90", &err), err);
    must(check(&cuda_12, "sm_90a", &err), err);
    assert_int_equal(check(&cuda_13, "sm_80", &err), KILN_CORRUPT);
    assert_says(err.text, "sm_90");
}

TEST(plain, refuses_objects_of_another_machine)
{
    struct kiln_err err;
    struct small_elf e = elf_of(EM_X86_64, 0x4c, 3);
    assert_int_equal(check(&e, "gfx942", &err), KILN_CORRUPT);
    assert_says(err.text, "machine 62");
    assert_int_equal(check(&e, "sm_90", &err), KILN_CORRUPT);
}

TEST(plain, refuses_what_is_no_elf_file)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct target amd = target_of("gfx942"), cl = target_of("opencl:cpu");
    assert_int_equal(code_object_check(bytes_of(NULL, 0), &amd, &err), KILN_CORRUPT);
    assert_says(err.text, "empty");
    assert_int_equal(code_object_check(bytes_of_text("text"), &amd, &err), KILN_CORRUPT);
    assert_int_equal(code_object_check(bytes_of(NULL, 0), &cl, &err), KILN_CORRUPT);
    must(code_object_check(bytes_of_text("binary"), &cl, &err), err);
}

TEST(plain, survives_every_damage_to_its_bytes)
{
    struct kiln_err err;
    struct elf_image image;
    const struct small_elf whole = elf_of(MACHINE_AMDGPU, 0x4c, 3);
    for (size_t i = 0; i < sizeof(whole); i++) {
        static const unsigned char values[] = { 0x00, 0x7f, 0x80, 0xff };
        for (size_t v = 0; v < sizeof(values); v++) {
            struct small_elf e = whole;
            ((unsigned char *)&e)[i] = values[v];
            (void)check(&e, "gfx942", &err);
            if (elf_image_open(bytes_of(&e, sizeof(e)), &image))
                (void)elf_build_id(&image);
        }
    }
}

TEST(plain, survives_being_cut_anywhere)
{
    const struct small_elf whole = elf_of(MACHINE_AMDGPU, 0x4c, 3);
    struct kiln_err err = KILN_ERR_INIT;
    struct target t = target_of("gfx942");
    for (size_t size = 0; size < sizeof(whole); size++) {
        /* The copy is on the heap, so that a sanitizer detects reads beyond its end. */
        KILN_AUTO(mem) unsigned char *cut = malloc(size ? size : 1);
        assert_non_null(cut);
        memcpy(cut, &whole, size);
        assert_int_equal(code_object_check(bytes_of(cut, size), &t, &err), KILN_CORRUPT);
    }
}

TEST(plain, finds_a_build_id_among_notes)
{
    static const uint8_t notes[] = { 4,   0,   0, 0, 1, 0, 0,   0,   9,   0, 0,    0,   'X',
                                     'Y', 'Z', 0, 7, 0, 0, 0,   4,   0,   0, 0,    2,   0,
                                     0,   0,   3, 0, 0, 0, 'G', 'N', 'U', 0, 0xab, 0xcd };
    struct bytes id = elf_notes_build_id(bytes_of(notes, sizeof(notes)));
    assert_int_equal(id.size, 2);
    assert_int_equal(id.data[0], 0xab);
    id = elf_notes_build_id(bytes_of(notes, sizeof(notes) - 1));
    assert_int_equal(id.size, 0);
}
