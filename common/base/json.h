/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * JSON values.  Only this module uses cJSON.  libkiln does not link this module.
 *
 * Role       reads and writes the bodies of administrative requests; reads configuration files
 * Ownership  json_parse, json_object and json_array return owned trees (json_destroy); adding a
 *            value to a parent transfers ownership; getters borrow from the tree
 * Threading  one thread per tree
 *
 * The functions that build a tree report no errors.  If memory runs out and a value is lost, the
 * tree is incomplete, and json_print rejects it.
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

struct json;

/* On failure, the message names |origin| and the offset where parsing stopped. */
KILN_MUST_CHECK enum kiln_code json_parse(struct bytes text, const char *origin,
                                          struct json **ret_json, struct kiln_err *err);
void json_destroy(struct json *json);
KILN_DEFINE_AUTO(json)
/* The caller frees the text.  Returns NULL if memory ran out, now or when |json| was built. */
char *json_print(const struct json *json, bool indent);

/* Functions to build a tree.  A NULL object, array, value or text means that memory ran out
 * earlier: the tree that should contain it becomes incomplete. */
struct json *json_object(void);
struct json *json_array(void);
struct json *json_text(const char *text);
struct json *json_number(double value);
struct json *json_bool(bool value);
void json_set(struct json *object, const char *name,
              struct json *value); /* takes ownership of |value| */
/* Returns the new array, which the tree owns; NULL if out of memory. */
struct json *json_set_array(struct json *object, const char *name);
void json_set_text(struct json *object, const char *name, const char *text);
void json_set_bytes(struct json *object, const char *name, struct bytes text);
void json_set_u64(struct json *object, const char *name, uint64_t value); /* exact up to 2^53 */
void json_replace_u64(struct json *object, const char *name, uint64_t value);
void json_set_number(struct json *object, const char *name, double value);
void json_set_bool(struct json *object, const char *name, bool value);
void json_append(struct json *array, struct json *value); /* takes ownership of |value| */

/* Results are borrowed.  If a member is absent or has another type, |otherwise| is returned. */
bool json_is_object(const struct json *json);
bool json_is_array(const struct json *json);
bool json_is_text(const struct json *json);
bool json_is_number(const struct json *json);
bool json_is_bool(const struct json *json);
const struct json *json_get(const struct json *object, const char *name);
const char *json_get_text(const struct json *object, const char *name, const char *otherwise);
uint64_t json_get_u64(const struct json *object, const char *name, uint64_t otherwise);
double json_get_number(const struct json *object, const char *name, double otherwise);
bool json_get_bool(const struct json *object, const char *name, bool otherwise);
const char *json_as_text(const struct json *json, const char *otherwise);
double json_as_number(const struct json *json, double otherwise);
bool json_as_bool(const struct json *json, bool otherwise);

/* Members of an object or items of an array, in order: for (j = json_first(o); j; j =
 * json_next(j)).  json_name is NULL for an array's item. */
const struct json *json_first(const struct json *json);
const struct json *json_next(const struct json *json);
const char *json_name(const struct json *json);
size_t json_count(const struct json *json);
