/* SPDX-License-Identifier: MIT */
/* A fake comgr of the version FAKE_MAJOR.$FAKE_COMGR_MINOR (minor version 8 if the variable is not
 * set). The results of its actions contain the options and the inputs. Like comgr, it makes a
 * directory in $TMPDIR for each action. Objects are never freed. Like comgr, from version 3 on it
 * lacks the function that returns all options as one text, and its actions have other numbers.
 * Version 4 lacks a function that comgr 3 has. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define DECLARED(name, ...)                \
    API int amd_comgr_##name(__VA_ARGS__); \
    int amd_comgr_##name(__VA_ARGS__)

enum { SUCCESS = 0, ERROR = 1, INVALID = 2 };
enum { LOG = 5, RELOCATABLE = 7, EXECUTABLE = 8, LAST_KIND = 0x14 };
#if FAKE_MAJOR < 3
enum { LINK = 0x9, ASSEMBLE = 0xa, MAKE_RELOCATABLE = 0x10, MAKE_EXECUTABLE = 0x11 };
#else
enum { LINK = 0x7, ASSEMBLE = 0x8, MAKE_RELOCATABLE = 0xd, MAKE_EXECUTABLE = 0xe };
#endif
enum { OBJECTS_MAX = 8, OPTIONS_MAX = 8, TEXT_MAX = 4096 };

struct object {
    int kind;
    size_t size;
    char bytes[TEXT_MAX], name[64];
};

struct set {
    size_t count;
    struct object *objects[OBJECTS_MAX];
};

struct info {
    int language;
    bool logging, device_libraries, vfs;
    size_t option_count;
    char options[OPTIONS_MAX][64];
};

API void amd_comgr_get_version(size_t *major, size_t *minor);
void amd_comgr_get_version(size_t *major, size_t *minor)
{
    *major = FAKE_MAJOR;
    const char *set = getenv("FAKE_COMGR_MINOR");
    *minor = set ? strtoul(set, NULL, 10) : 8;
}

static int copy(const char *text, size_t size, size_t *ret_size, char *ret)
{
    if (ret)
        memcpy(ret, text, size);
    else
        *ret_size = size;
    return SUCCESS;
}

/* ---- objects ---- */

DECLARED(create_data, int kind, struct object **ret)
{
    *ret = calloc(1, sizeof(**ret));
    (*ret)->kind = kind;
    return SUCCESS;
}

DECLARED(release_data, struct object *o) { return o ? SUCCESS : INVALID; }

DECLARED(set_data, struct object *o, size_t size, const char *bytes)
{
    if (!size || size > TEXT_MAX)
        return INVALID;
    memcpy(o->bytes, bytes, size);
    o->size = size;
    return SUCCESS;
}

#if FAKE_MAJOR < 4
DECLARED(set_data_from_file_slice, struct object *o, int file, uint64_t at, uint64_t size)
{
    return file < 0 ? INVALID : pread(file, o->bytes, o->size = size, (off_t)at) < 0;
}
#endif

DECLARED(set_data_name, struct object *o, const char *name)
{
    snprintf(o->name, sizeof(o->name), "%s", name);
    return SUCCESS;
}

DECLARED(get_data, struct object *o, size_t *size, char *ret)
{
    return copy(o->bytes, o->size, size, ret);
}

DECLARED(get_data_name, struct object *o, size_t *size, char *ret)
{
    return copy(o->name, strlen(o->name) + 1, size, ret);
}

DECLARED(get_data_kind, struct object *o, int *ret)
{
    *ret = o->kind;
    return SUCCESS;
}

DECLARED(get_data_isa_name, struct object *o, size_t *size, char *ret)
{
    return o ? copy("an isa", 7, size, ret) : INVALID;
}

DECLARED(iterate_symbols, struct object *o, void *each, void *context)
{
    return o && each && context ? SUCCESS : INVALID;
}

/* ---- sets ---- */

DECLARED(create_data_set, struct set **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return SUCCESS;
}

DECLARED(destroy_data_set, struct set *s) { return s ? SUCCESS : INVALID; }

DECLARED(data_set_add, struct set *s, struct object *o)
{
    if (s->count == OBJECTS_MAX)
        return ERROR;
    s->objects[s->count++] = o;
    return SUCCESS;
}

DECLARED(data_set_remove, struct set *s, int kind)
{
    size_t left = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->objects[i]->kind != kind)
            s->objects[left++] = s->objects[i];
    s->count = left;
    return SUCCESS;
}

DECLARED(action_data_count, struct set *s, int kind, size_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < s->count; i++)
        *ret += s->objects[i]->kind == kind;
    return kind > LAST_KIND ? INVALID : SUCCESS;
}

DECLARED(action_data_get_data, struct set *s, int kind, size_t index, struct object **ret)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->objects[i]->kind == kind && index-- == 0) {
            *ret = s->objects[i];
            return SUCCESS;
        }
    return INVALID;
}

/* ---- actions ---- */

DECLARED(create_action_info, struct info **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return SUCCESS;
}

DECLARED(destroy_action_info, struct info *info) { return info ? SUCCESS : INVALID; }
DECLARED(action_info_set_isa_name, struct info *info, const char *isa)
{
    return info && isa ? SUCCESS : INVALID;
}
DECLARED(action_info_set_working_directory_path, struct info *info, const char *path)
{
    return info && path ? SUCCESS : INVALID;
}

DECLARED(action_info_set_device_lib_linking, struct info *info, bool links)
{
    info->device_libraries = links;
    return SUCCESS;
}

DECLARED(action_info_set_vfs, struct info *info, bool is_used)
{
    info->vfs = is_used;
    return SUCCESS;
}

DECLARED(action_info_set_language, struct info *info, int language)
{
    info->language = language;
    return SUCCESS;
}

DECLARED(action_info_get_language, struct info *info, int *ret)
{
    *ret = info->language;
    return SUCCESS;
}

DECLARED(action_info_set_logging, struct info *info, bool logging)
{
    info->logging = logging;
    return SUCCESS;
}

DECLARED(action_info_get_logging, struct info *info, bool *ret)
{
    *ret = info->logging;
    return SUCCESS;
}

DECLARED(action_info_set_option_list, struct info *info, const char *options[], size_t count)
{
    if (count > OPTIONS_MAX)
        return INVALID;
    for (size_t i = 0; i < count; i++)
        snprintf(info->options[i], sizeof(info->options[i]), "%s", options[i]);
    info->option_count = count;
    return SUCCESS;
}

DECLARED(action_info_get_option_list_count, struct info *info, size_t *ret)
{
    *ret = info->option_count;
    return SUCCESS;
}

DECLARED(action_info_get_option_list_item, struct info *info, size_t index, size_t *size, char *ret)
{
    return copy(info->options[index], strlen(info->options[index]) + 1, size, ret);
}

#if FAKE_MAJOR < 3
DECLARED(action_info_get_options, struct info *info, size_t *size, char *ret)
{
    return info ? copy("", 1, size, ret) : INVALID;
}
#endif

static void use_temporary_directory(void)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/comgr-XXXXXX", getenv("TMPDIR"));
    if (!mkdtemp(path) || rmdir(path))
        abort();
}

static void add(struct set *to, int kind, const char *text)
{
    struct object *o;
    amd_comgr_create_data(kind, &o);
    o->size = (size_t)snprintf(o->bytes, sizeof(o->bytes), "%s", text);
    snprintf(o->name, sizeof(o->name), "result");
    amd_comgr_data_set_add(to, o);
}

/* Returns the kind of an action's result, or 0 for other actions. */
static int result_of(int kind)
{
    return kind == ASSEMBLE || kind == MAKE_RELOCATABLE ? RELOCATABLE
           : kind == LINK || kind == MAKE_EXECUTABLE    ? EXECUTABLE
                                                        : 0;
}

DECLARED(do_action, int kind, struct info *info, struct set *inputs, struct set *results)
{
    char text[TEXT_MAX / 2] = "";
    size_t used = (size_t)snprintf(text, sizeof(text), "%d%d ", info->device_libraries, info->vfs);
    if (!result_of(kind))
        return INVALID;
    use_temporary_directory();
    for (size_t i = 0; i < info->option_count && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s ", info->options[i]);
    for (size_t i = 0; i < inputs->count && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", inputs->objects[i]->bytes);
    add(results, result_of(kind), text);
    if (info->logging)
        add(results, LOG, "");
    return SUCCESS;
}
