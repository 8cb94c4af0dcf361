/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * zstd dictionaries: the content that code objects of one GPU family have in common.
 *
 * Ownership  static data, embedded from engine/codec/dictionaries/
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "engine/codec/codec_zstd.h"

#define DICTIONARY_COUNT 2u

struct bytes dictionary_content(size_t number);
enum codec_id dictionary_codec(size_t number);

/* Returns the number of the dictionary for |raw|, or DICTIONARY_COUNT if |raw| is not an ELF file
 * for a GPU. */
size_t dictionary_for(struct bytes raw);
size_t dictionary_of(uint64_t codec);
