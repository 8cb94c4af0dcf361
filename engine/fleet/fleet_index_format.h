/* SPDX-License-Identifier: MIT */
#pragma once

/* Constants of an index that both its reader and its writer need (docs/formats/fleet.md). */
#define FLEET_INDEX_FORMAT "kiln-fleet-index-1"
#define FLEET_PREFIX_SIZE 8u
/* Bytes of one entry: prefix, offset, size, pack. The index has one array of all prefixes, one of
 * all offsets, and so on. */
#define FLEET_ENTRY_SIZE (FLEET_PREFIX_SIZE + 4u + 4u + 2u)
