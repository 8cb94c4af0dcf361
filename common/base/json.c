/* SPDX-License-Identifier: MIT */
#include "common/base/json.h"

#include "common/base/utf8.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* struct json is never defined: a pointer to one is a cJSON pointer. */
static cJSON *cjson_of(struct json *json) { return (cJSON *)json; }
static const cJSON *const_cjson_of(const struct json *json) { return (const cJSON *)json; }
static struct json *wrap_item(cJSON *item) { return (struct json *)item; }

enum kiln_code json_parse(struct bytes text, const char *origin, struct json **ret_json,
                          struct kiln_err *err)
{
    const char *end = NULL;
    errno = 0; /* cJSON returns NULL for invalid text and if out of memory; errno shows which */
    cJSON *item = cJSON_ParseWithLengthOpts((const char *)text.data, text.size, &end, 0);
    if (!item && errno == ENOMEM)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read the JSON of %s", origin);
    if (!item)
        return kiln_fail(err, KILN_INVALID, "%s is not JSON: stopped at byte %zu of %zu", origin,
                         end ? (size_t)(end - (const char *)text.data) : 0, text.size);
    const char *limit = (const char *)text.data + text.size;
    while (end < limit && (*end == ' ' || *end == '\n' || *end == '\r' || *end == '\t' || !*end))
        end++;
    if (end != limit) {
        cJSON_Delete(item);
        return kiln_fail(err, KILN_INVALID, "%s has something after its JSON, at byte %zu", origin,
                         (size_t)(end - (const char *)text.data));
    }
    *ret_json = wrap_item(item);
    return KILN_OK;
}

void json_destroy(struct json *json) { cJSON_Delete(cjson_of(json)); }

#define ESCAPED 6

/* Escapes the control characters DEL and C1 in a printed tree, because cJSON only escapes C0.  DEL
 * and C1 occur only within JSON strings, so they can be escaped after printing.  Returns NULL if
 * out of memory. */
static char *escape_controls(char *printed)
{
    size_t controls = 0;
    for (const unsigned char *at = (unsigned char *)printed; *at; at++)
        controls += utf8_control(at) >= 0x7f;
    if (controls == 0)
        return printed;
    char *escaped = malloc(strlen(printed) + controls * ESCAPED + 1), *to = escaped;
    for (const unsigned char *at = (unsigned char *)printed; escaped && *at; at++) {
        unsigned control = utf8_control(at);
        if (control < 0x7f)
            *to++ = (char)*at;
        else
            to += snprintf(to, ESCAPED + 1, "\\u%04x", control);
        at += control > 0x7f; /* a C1 character has two bytes */
    }
    if (to)
        *to = '\0';
    free(printed);
    return escaped;
}

char *json_print(const struct json *json, bool indent)
{
    if (!json)
        return NULL;
    char *printed =
        indent ? cJSON_Print(const_cjson_of(json)) : cJSON_PrintUnformatted(const_cjson_of(json));
    return printed ? escape_controls(printed) : NULL;
}

struct json *json_object(void) { return wrap_item(cJSON_CreateObject()); }
struct json *json_array(void) { return wrap_item(cJSON_CreateArray()); }
struct json *json_text(const char *text) { return wrap_item(cJSON_CreateString(text)); }
struct json *json_number(double value) { return wrap_item(cJSON_CreateNumber(value)); }
struct json *json_bool(bool value) { return wrap_item(cJSON_CreateBool(value)); }

/* Marks a tree that lost a value: adds an item without a type, which cJSON cannot print.  So
 * json_print rejects the tree. */
static void mark_incomplete(struct json *container)
{
    if (container)
        cjson_of(container)->type = cJSON_Invalid;
}

void json_set(struct json *object, const char *name, struct json *value)
{
    if (cJSON_AddItemToObject(cjson_of(object), name, cjson_of(value)))
        return;
    cJSON_Delete(cjson_of(value));
    mark_incomplete(object);
}

struct json *json_set_array(struct json *object, const char *name)
{
    json_set(object, name, json_array());
    return wrap_item(cJSON_GetObjectItemCaseSensitive(cjson_of(object), name));
}

void json_set_text(struct json *object, const char *name, const char *text)
{
    json_set(object, name, json_text(text));
}

void json_set_bytes(struct json *object, const char *name, struct bytes text)
{
    KILN_AUTO(mem) char *copy = bytes_to_text(text);
    json_set(object, name, copy ? json_text(copy) : NULL);
}

void json_set_u64(struct json *object, const char *name, uint64_t value)
{
    json_set(object, name, json_number((double)value));
}

void json_replace_u64(struct json *object, const char *name, uint64_t value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(cjson_of(object), name);
    json_set_u64(object, name, value);
}

void json_set_number(struct json *object, const char *name, double value)
{
    json_set(object, name, json_number(value));
}

void json_set_bool(struct json *object, const char *name, bool value)
{
    json_set(object, name, json_bool(value));
}

void json_append(struct json *array, struct json *value)
{
    if (cJSON_AddItemToArray(cjson_of(array), cjson_of(value)))
        return;
    cJSON_Delete(cjson_of(value));
    mark_incomplete(array);
}

bool json_is_object(const struct json *json) { return cJSON_IsObject(const_cjson_of(json)); }
bool json_is_array(const struct json *json) { return cJSON_IsArray(const_cjson_of(json)); }
bool json_is_text(const struct json *json) { return cJSON_IsString(const_cjson_of(json)); }
bool json_is_number(const struct json *json) { return cJSON_IsNumber(const_cjson_of(json)); }
bool json_is_bool(const struct json *json) { return cJSON_IsBool(const_cjson_of(json)); }

const struct json *json_get(const struct json *object, const char *name)
{
    return (const struct json *)cJSON_GetObjectItemCaseSensitive(const_cjson_of(object), name);
}

const char *json_as_text(const struct json *json, const char *otherwise)
{
    return json_is_text(json) ? const_cjson_of(json)->valuestring : otherwise;
}

double json_as_number(const struct json *json, double otherwise)
{
    return json_is_number(json) ? const_cjson_of(json)->valuedouble : otherwise;
}

bool json_as_bool(const struct json *json, bool otherwise)
{
    return json_is_bool(json) ? cJSON_IsTrue(const_cjson_of(json)) : otherwise;
}

const char *json_get_text(const struct json *object, const char *name, const char *otherwise)
{
    return json_as_text(json_get(object, name), otherwise);
}

double json_get_number(const struct json *object, const char *name, double otherwise)
{
    return json_as_number(json_get(object, name), otherwise);
}

uint64_t json_get_u64(const struct json *object, const char *name, uint64_t otherwise)
{
    const struct json *item = json_get(object, name);
    if (!json_is_number(item))
        return otherwise;
    double value = const_cjson_of(item)->valuedouble;
    if (!(value >= 0) || value > 9007199254740992.0) /* 2^53 */
        return otherwise;
    return (uint64_t)value;
}

bool json_get_bool(const struct json *object, const char *name, bool otherwise)
{
    return json_as_bool(json_get(object, name), otherwise);
}

const struct json *json_first(const struct json *json)
{
    return json ? (const struct json *)const_cjson_of(json)->child : NULL;
}

const struct json *json_next(const struct json *json)
{
    return (const struct json *)const_cjson_of(json)->next;
}

const char *json_name(const struct json *json) { return const_cjson_of(json)->string; }

size_t json_count(const struct json *json)
{
    return json_first(json) ? (size_t)cJSON_GetArraySize(const_cjson_of(json)) : 0;
}
