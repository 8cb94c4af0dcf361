/* SPDX-License-Identifier: MIT */
#include "libclient/device/elf_check.h"

#include <elf.h>
#include <string.h>

static bool is_within(struct bytes object, uint64_t offset, uint64_t size)
{
    return offset <= object.size && size <= object.size - offset;
}

static bool are_sections_within(struct bytes object, const Elf64_Ehdr *header)
{
    if (header->e_shnum == 0)
        return header->e_shoff == 0;
    if (header->e_shentsize != sizeof(Elf64_Shdr) ||
        !is_within(object, header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr)))
        return false;
    for (size_t i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, object.data + header->e_shoff + i * sizeof(section), sizeof(section));
        if (section.sh_type != SHT_NOBITS && !is_within(object, section.sh_offset, section.sh_size))
            return false;
    }
    return true;
}

static bool are_segments_within(struct bytes object, const Elf64_Ehdr *header)
{
    if (header->e_phnum == 0)
        return true;
    if (header->e_phentsize != sizeof(Elf64_Phdr) ||
        !is_within(object, header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr)))
        return false;
    for (size_t i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, object.data + header->e_phoff + i * sizeof(segment), sizeof(segment));
        if (!is_within(object, segment.p_offset, segment.p_filesz))
            return false;
    }
    return true;
}

enum kiln_code elf_check(struct bytes object, unsigned machine, struct kiln_err *err)
{
    Elf64_Ehdr header;
    if (object.size < sizeof(header) || memcmp(object.data, ELFMAG, SELFMAG) != 0 ||
        object.data[EI_CLASS] != ELFCLASS64 || object.data[EI_DATA] != ELFDATA2LSB)
        return kiln_fail(err, KILN_CORRUPT,
                         "its %zu bytes are not a 64-bit ELF file: compile or fetch it again",
                         object.size);
    memcpy(&header, object.data, sizeof(header));
    if (header.e_machine != machine)
        return kiln_fail(err, KILN_CORRUPT,
                         "it is for ELF machine %u, not %u: compile it for the device's target",
                         header.e_machine, machine);
    if (!are_sections_within(object, &header) || !are_segments_within(object, &header))
        return kiln_fail(err, KILN_CORRUPT,
                         "its parts extend beyond its %zu bytes: compile or fetch it again",
                         object.size);
    return KILN_OK;
}
