/* SPDX-License-Identifier: MIT */
#include "engine/codec/dictionary.h"

#include <elf.h>
#include <string.h>

extern const unsigned char dictionary_amdgpu[], dictionary_nvidia[];
extern const unsigned long dictionary_amdgpu_size, dictionary_nvidia_size;

/* New objects use the first dictionary of their GPU family.  Older dictionaries are never removed,
 * because stored objects need them. */
static const struct dictionary {
    enum codec_id codec;
    uint16_t machine;
    const unsigned char *data;
    const unsigned long *size;
} dictionaries[DICTIONARY_COUNT] = {
    { CODEC_ZSTD_AMDGPU, EM_AMDGPU, dictionary_amdgpu, &dictionary_amdgpu_size },
    { CODEC_ZSTD_NVIDIA, EM_CUDA, dictionary_nvidia, &dictionary_nvidia_size },
};

struct bytes dictionary_content(size_t number)
{
    return bytes_of(dictionaries[number].data, *dictionaries[number].size);
}

enum codec_id dictionary_codec(size_t number) { return dictionaries[number].codec; }

size_t dictionary_for(struct bytes raw)
{
    Elf64_Ehdr header;
    size_t i = 0;
    if (raw.size < sizeof(header))
        return DICTIONARY_COUNT;
    memcpy(&header, raw.data, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return DICTIONARY_COUNT;
    while (i < DICTIONARY_COUNT && dictionaries[i].machine != header.e_machine)
        i++;
    return i;
}

size_t dictionary_of(uint64_t codec)
{
    size_t i = 0;
    while (i < DICTIONARY_COUNT && dictionaries[i].codec != codec)
        i++;
    return i;
}
