/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the code objects of one GPU family have in common, for zstd to begin with.
 *
 * Role       knows the dictionaries of this build, numbered from 0, and which one suits an object
 * Ownership  static data, embedded from engine/store/dictionaries/
 * Threading  pure functions
 */
#include "common/bytes.h"
#include "engine/store/codec_zstd.h"

#define DICTIONARY_COUNT 2u

struct bytes dictionary_content(size_t number);
/* What an object that was stored with it says. */
enum codec_id dictionary_codec(size_t number);

/* DICTIONARY_COUNT when |raw| is no GPU's ELF file. */
size_t dictionary_for(struct bytes raw);
/* DICTIONARY_COUNT when no dictionary of this build has that codec. */
size_t dictionary_of(uint64_t codec);
