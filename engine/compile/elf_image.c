/* SPDX-License-Identifier: MIT */
#include "engine/compile/elf_image.h"

#include <string.h>

static bool is_within(const struct elf_image *image, uint64_t offset, uint64_t size)
{
    return offset <= image->content.size && size <= image->content.size - offset;
}

bool elf_image_open(struct bytes content, struct elf_image *ret_image)
{
    struct elf_image image = { .content = content };
    if (content.size < sizeof(image.header))
        return false;
    memcpy(&image.header, content.data, sizeof(image.header));
    const Elf64_Ehdr *h = &image.header;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_ident[EI_DATA] != ELFDATA2LSB)
        return false;
    if (h->e_shnum && (h->e_shentsize != sizeof(Elf64_Shdr) ||
                       !is_within(&image, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr))))
        return false;
    *ret_image = image;
    return true;
}

size_t elf_section_count(const struct elf_image *image) { return image->header.e_shnum; }

bool elf_section(const struct elf_image *image, size_t index, Elf64_Shdr *ret_section,
                 struct bytes *ret_content)
{
    if (index >= image->header.e_shnum)
        return false;
    Elf64_Shdr section;
    size_t at = image->header.e_shoff + index * sizeof(section);
    memcpy(&section, image->content.data + at, sizeof(section));
    if (section.sh_type == SHT_NOBITS)
        section.sh_size = 0;
    if (!is_within(image, section.sh_offset, section.sh_size))
        return false;
    *ret_content = bytes_of(image->content.data + section.sh_offset, section.sh_size);
    *ret_section = section;
    return true;
}

struct bytes elf_notes_build_id(struct bytes notes)
{
    struct reader r = reader_of(notes);
    while (reader_left(&r) >= sizeof(Elf64_Nhdr)) {
        uint32_t name_size = reader_u32(&r), size = reader_u32(&r), type = reader_u32(&r);
        struct bytes name = reader_take(&r, name_size);
        reader_take(&r, -name_size & 3u);
        struct bytes id = reader_take(&r, size);
        if (!r.failed && type == NT_GNU_BUILD_ID && name.size == 4 &&
            memcmp(name.data, "GNU", 4) == 0)
            return id;
        reader_take(&r, -size & 3u);
    }
    return bytes_of(NULL, 0);
}

struct bytes elf_build_id(const struct elf_image *image)
{
    for (size_t i = 0; i < elf_section_count(image); i++) {
        Elf64_Shdr section;
        struct bytes notes;
        if (!elf_section(image, i, &section, &notes) || section.sh_type != SHT_NOTE)
            continue;
        struct bytes id = elf_notes_build_id(notes);
        if (id.size)
            return id;
    }
    return bytes_of(NULL, 0);
}
