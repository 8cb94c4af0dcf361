/* SPDX-License-Identifier: MIT */
#include "libclient/device/elf_check.h"

#include "tests/support/test.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define SECTIONS 3
#define SEGMENTS 2
#define CONTENT 100

struct file {
    Elf64_Ehdr header;
    Elf64_Phdr segments[SEGMENTS];
    char content[CONTENT];
    Elf64_Shdr sections[SECTIONS];
} __attribute__((packed));

static const struct file good = {
    .header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB },
                .e_machine = ELF_MACHINE_CUDA,
                .e_phoff = offsetof(struct file, segments),
                .e_phentsize = sizeof(Elf64_Phdr),
                .e_phnum = SEGMENTS,
                .e_shoff = offsetof(struct file, sections),
                .e_shentsize = sizeof(Elf64_Shdr),
                .e_shnum = SECTIONS },
    .segments = { { .p_offset = offsetof(struct file, content), .p_filesz = CONTENT },
                  { .p_offset = 0, .p_filesz = sizeof(struct file) } },
    .sections = { { .sh_type = SHT_NULL },
                  { .sh_type = SHT_PROGBITS,
                    .sh_offset = offsetof(struct file, content),
                    .sh_size = CONTENT },
                  { .sh_type = SHT_NOBITS, .sh_offset = 1 << 20, .sh_size = 1 << 30 } },
};

/* Checks a copy of the file on the heap, so that a sanitizer sees a read beyond its end. */
static enum kiln_code check(const struct file *file, size_t size, struct kiln_err *err)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, file, size);
    *err = KILN_ERR_INIT;
    enum kiln_code rc = elf_check(bytes_of(copy, size), ELF_MACHINE_CUDA, err);
    free(copy);
    return rc;
}

TEST(plain, a_complete_elf_file_is_accepted)
{
    struct kiln_err err;
    must(check(&good, sizeof(good), &err), err);
    struct file bare = good;
    bare.header.e_phnum = bare.header.e_shnum = 0;
    bare.header.e_shoff = 0;
    must(check(&bare, sizeof(bare.header), &err), err);
}

TEST(plain, a_file_that_was_cut_is_refused_wherever_that_was)
{
    struct kiln_err err;
    for (size_t size = 0; size < sizeof(good); size++) {
        assert_int_equal(check(&good, size, &err), KILN_CORRUPT);
        assert_true(err.text[0]);
    }
}

TEST(plain, parts_beyond_the_end_are_refused)
{
    struct kiln_err err;
    struct file f;
#define BREAK(field, value)                                     \
    f = good;                                                   \
    f.field = (value);                                          \
    assert_int_equal(check(&f, sizeof(f), &err), KILN_CORRUPT); \
    assert_says(err.text, "parts")
    BREAK(header.e_shoff, sizeof(f));
    BREAK(header.e_shoff, UINT64_MAX);
    BREAK(header.e_shoff, UINT64_MAX - sizeof(Elf64_Shdr));
    BREAK(header.e_shnum, SECTIONS + 1);
    BREAK(header.e_shnum, UINT16_MAX);
    /* With a section offset, 0 means that there are more sections than e_shnum can count. */
    BREAK(header.e_shnum, 0);
    BREAK(header.e_shentsize, sizeof(Elf64_Shdr) - 1);
    BREAK(header.e_phoff, sizeof(f));
    BREAK(header.e_phoff, UINT64_MAX);
    BREAK(header.e_phnum, UINT16_MAX);
    BREAK(header.e_phentsize, 0);
    BREAK(segments[0].p_filesz, sizeof(f));
    BREAK(segments[0].p_offset, UINT64_MAX);
    BREAK(segments[1].p_filesz, UINT64_MAX);
    BREAK(sections[1].sh_size, sizeof(f));
    BREAK(sections[1].sh_offset, UINT64_MAX);
    BREAK(sections[2].sh_type, SHT_PROGBITS);
#undef BREAK
}

TEST(plain, an_elf_file_that_does_not_match_is_refused)
{
    struct kiln_err err;
    struct file f = good;
    f.header.e_machine = ELF_MACHINE_AMDGPU;
    assert_int_equal(check(&f, sizeof(f), &err), KILN_CORRUPT);
    assert_says(err.text, "224");
    f = good;
    f.header.e_ident[EI_CLASS] = ELFCLASS32;
    assert_int_equal(check(&f, sizeof(f), &err), KILN_CORRUPT);
    assert_says(err.text, "64-bit");
    f = good;
    f.header.e_ident[EI_DATA] = ELFDATA2MSB;
    assert_int_equal(check(&f, sizeof(f), &err), KILN_CORRUPT);
    f = good;
    f.header.e_ident[0] = 'X';
    assert_int_equal(check(&f, sizeof(f), &err), KILN_CORRUPT);
}

TEST(plain, a_flipped_byte_never_makes_the_check_read_beyond_the_end)
{
    struct kiln_err err;
    for (size_t at = 0; at < sizeof(good); at++)
        for (unsigned flip = 1; flip < 256; flip <<= 1) {
            struct file f = good;
            ((uint8_t *)&f)[at] ^= (uint8_t)flip;
            enum kiln_code rc = check(&f, sizeof(f), &err);
            assert_true(rc == KILN_OK || (rc == KILN_CORRUPT && err.text[0]));
        }
}
