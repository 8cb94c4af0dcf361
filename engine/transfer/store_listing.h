/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * URLs of an object store, and lists of the names in a directory (S3's ListObjectsV2).
 *
 * Role       a store answers with one page of names after the other, as XML. Any byte of a page may
 *            be hostile
 * Ownership  the caller owns the buffer
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "engine/transfer/fleet_wire.h"
#include "engine/transfer/url.h"

#define STORE_URL_MAX (URL_MAX + 4u * FLEET_TOKEN_MAX)
#define STORE_PAGE_MAX (4u << 20)

/* Writes the URL of a file of the tree. |root| is the URL of the tree. Encodes the path as
 * Signature Version 4 needs. Returns false if the URL is too long. */
bool store_file_url(const struct url *root, const char *name, char text[STORE_URL_MAX]);
/* Writes the URL of a page. |root| is the URL of the tree. |token| names the page; "" means the
 * first page. The query is in the form that Signature Version 4 needs. Returns false if the URL has
 * no bucket, or is too long. */
bool store_list_url(const struct url *root, const char *directory, const char *token,
                    char text[STORE_URL_MAX]);
/* Appends the names in |directory| to |ret_names|, a line for each (fleet_wire.h), and copies the
 * token of the next page ("": this is the last one). Leaves out names that cannot be in a fleet's
 * tree.
 * Returns false if |page| is not a page of a list. */
bool store_page_read(struct bytes page, const char *directory, struct buffer *ret_names,
                     char token[FLEET_TOKEN_MAX]);
