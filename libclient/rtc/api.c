/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/api.h"

#include "common/base/bytes.h"
#include "libclient/rtc/comgr.h"
#include "libclient/rtc/identity.h"
#include "libclient/rtc/locks.h"
#include "libclient/rtc/preload.h"
#include "libclient/rtc/program.h"
#include "libclient/rtc/settings.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* Maximum number of wrapped libraries in a process, which may, for example, load several versions
 * of NVRTC. */
#define LIBRARIES_MAX 6

static struct rtc_library libraries[LIBRARIES_MAX];

/* ---- names ---- */

/* Number of names for each kind of library.  The names are in the order of the members of struct
 * rtc_functions, or for comgr, of struct comgr_wrapped. */
#define FUNCTIONS (8 + 2 * RTC_OUTPUTS_MAX)
#define FIRST 0

static const char *const names[RTC_KINDS][FUNCTIONS] = {
    [RTC_NVRTC] = { "nvrtcCreateProgram",  "nvrtcDestroyProgram", "nvrtcAddNameExpression",
                    "nvrtcCompileProgram", "nvrtcGetLoweredName", "nvrtcGetProgramLogSize",
                    "nvrtcGetProgramLog",  "nvrtcGetCUBINSize",   "nvrtcGetCUBIN",
                    "nvrtcGetPTXSize",     "nvrtcGetPTX",         "nvrtcGetLTOIRSize",
                    "nvrtcGetLTOIR",       "nvrtcGetOptiXIRSize", "nvrtcGetOptiXIR",
                    "nvrtcGetNVVMSize",    "nvrtcGetNVVM",        "nvrtcGetTileIRSize",
                    "nvrtcGetTileIR",      "nvrtcSetFlowCallback" },
    [RTC_HIPRTC] = { "hiprtcCreateProgram", "hiprtcDestroyProgram", "hiprtcAddNameExpression",
                     "hiprtcCompileProgram", "hiprtcGetLoweredName", "hiprtcGetProgramLogSize",
                     "hiprtcGetProgramLog", "hiprtcGetCodeSize", "hiprtcGetCode",
                     "hiprtcGetBitcodeSize", "hiprtcGetBitcode" },
    [RTC_COMGR] = { "amd_comgr_do_action", "amd_comgr_create_action_info",
                    "amd_comgr_destroy_action_info", "amd_comgr_action_info_set_isa_name",
                    "amd_comgr_action_info_set_working_directory_path",
                    "amd_comgr_action_info_set_device_lib_linking",
                    "amd_comgr_action_info_set_vfs" },
};

static const char *const kind_names[RTC_KINDS] = {
    [RTC_NVRTC] = "nvrtc", [RTC_HIPRTC] = "hiprtc", [RTC_COMGR] = "comgr"
};

static const char *const comgr_names[] = {
    "amd_comgr_get_version",
    "amd_comgr_action_info_get_language",
    "amd_comgr_action_info_get_logging",
    "amd_comgr_action_info_get_option_list_count",
    "amd_comgr_action_info_get_option_list_item",
    "amd_comgr_action_info_get_options",
    "amd_comgr_action_data_count",
    "amd_comgr_action_data_get_data",
    "amd_comgr_data_set_add",
    "amd_comgr_data_set_remove",
    "amd_comgr_create_data",
    "amd_comgr_release_data",
    "amd_comgr_get_data",
    "amd_comgr_get_data_name",
    "amd_comgr_set_data",
    "amd_comgr_set_data_name",
    "amd_comgr_set_data_from_file_slice",
};
#define COMGR_WRAPPED (sizeof(struct comgr_wrapped) / sizeof(void *))
#define COMGR_FUNCTIONS (sizeof(struct comgr_functions) / sizeof(void *))
/* Number of functions that a comgr must have so that libkiln-rtc wraps it: the wrapped functions,
 * and amd_comgr_get_version.  If others are missing, kilnd does not answer the compiles of this
 * comgr. */
#define COMGR_ALWAYS (COMGR_WRAPPED + 1)
#define COMGR_INDEX(member) (offsetof(struct comgr_functions, member) / sizeof(void *))
_Static_assert(COMGR_FUNCTIONS == COMGR_WRAPPED + sizeof(comgr_names) / sizeof(comgr_names[0]),
               "one name for each function");

int rtc_function_number(const char *name)
{
    enum rtc_kind kind = strncmp(name, "nvrtc", 5) == 0         ? RTC_NVRTC
                         : strncmp(name, "hiprtc", 6) == 0      ? RTC_HIPRTC
                         : strncmp(name, "amd_comgr_", 10) == 0 ? RTC_COMGR
                                                                : RTC_KINDS;
    for (int i = 0; kind < RTC_KINDS && i < FUNCTIONS; i++)
        if (names[kind][i] && strcmp(names[kind][i], name) == 0)
            return (int)kind * FUNCTIONS + i;
    return -1;
}

/* ---- wrappers ---- */

#define OUTPUT_WRAPPERS(n, output)                                        \
    static int size_##output##_##n(void *program, size_t *ret_size)       \
    {                                                                     \
        return rtc_output_size(&libraries[n], output, program, ret_size); \
    }                                                                     \
    static int get_##output##_##n(void *program, char *ret_bytes)         \
    {                                                                     \
        return rtc_output_get(&libraries[n], output, program, ret_bytes); \
    }

#define WRAPPERS(n)                                                                           \
    static int create_##n(void **ret_program, const char *source, const char *name,           \
                          int header_count, const char *const *headers,                       \
                          const char *const *header_names)                                    \
    {                                                                                         \
        const struct rtc_inputs in = { source, name, header_count, headers, header_names };   \
        return rtc_create(&libraries[n], ret_program, &in);                                   \
    }                                                                                         \
    static int destroy_##n(void **program) { return rtc_destroy(&libraries[n], program); }    \
    static int add_name_##n(void *program, const char *expression)                            \
    {                                                                                         \
        return rtc_add_name(&libraries[n], program, expression);                              \
    }                                                                                         \
    static int compile_##n(void *program, int count, const char *const *options)              \
    {                                                                                         \
        return rtc_compile(&libraries[n], program, count, options);                           \
    }                                                                                         \
    static int lowered_##n(void *program, const char *expression, const char **ret_name)      \
    {                                                                                         \
        return rtc_lowered(&libraries[n], program, expression, ret_name);                     \
    }                                                                                         \
    static int set_callback_##n(void *program, rtc_callback_fn *callback, void *payload)      \
    {                                                                                         \
        return rtc_set_callback(&libraries[n], program, callback, payload);                   \
    }                                                                                         \
    static int act_##n(int kind, struct comgr_handle info, struct comgr_handle inputs,        \
                       struct comgr_handle results)                                           \
    {                                                                                         \
        return comgr_act(&libraries[n], &(struct comgr_call){ kind, info, inputs, results }); \
    }                                                                                         \
    static int create_info_##n(struct comgr_handle *ret_info)                                 \
    {                                                                                         \
        return comgr_create_info(&libraries[n], ret_info);                                    \
    }                                                                                         \
    static int destroy_info_##n(struct comgr_handle info)                                     \
    {                                                                                         \
        return comgr_destroy_info(&libraries[n], info);                                       \
    }                                                                                         \
    static int set_isa_##n(struct comgr_handle info, const char *isa)                         \
    {                                                                                         \
        return comgr_set_isa(&libraries[n], info, isa);                                       \
    }                                                                                         \
    static int set_directory_##n(struct comgr_handle info, const char *path)                  \
    {                                                                                         \
        return comgr_set_directory(&libraries[n], info, path);                                \
    }                                                                                         \
    static int set_device_libraries_##n(struct comgr_handle info, bool links)                 \
    {                                                                                         \
        return comgr_set_device_libraries(&libraries[n], info, links);                        \
    }                                                                                         \
    static int set_vfs_##n(struct comgr_handle info, bool is_used)                            \
    {                                                                                         \
        return comgr_set_vfs(&libraries[n], info, is_used);                                   \
    }                                                                                         \
    OUTPUT_WRAPPERS(n, 0)                                                                     \
    OUTPUT_WRAPPERS(n, 1)                                                                     \
    OUTPUT_WRAPPERS(n, 2)                                                                     \
    OUTPUT_WRAPPERS(n, 3)                                                                     \
    OUTPUT_WRAPPERS(n, 4)                                                                     \
    OUTPUT_WRAPPERS(n, 5)                                                                     \
    OUTPUT_WRAPPERS(n, 6)

WRAPPERS(0)
WRAPPERS(1)
WRAPPERS(2)
WRAPPERS(3)
WRAPPERS(4)
WRAPPERS(5)

#define ROW(n)                                                                            \
    {                                                                                     \
        .create = create_##n, .destroy = destroy_##n, .add_name = add_name_##n,           \
        .compile = compile_##n, .lowered = lowered_##n, .log = { size_6_##n, get_6_##n }, \
        .outputs = { { size_0_##n, get_0_##n }, { size_1_##n, get_1_##n },                \
                     { size_2_##n, get_2_##n }, { size_3_##n, get_3_##n },                \
                     { size_4_##n, get_4_##n }, { size_5_##n, get_5_##n } },              \
        .set_callback = set_callback_##n,                                                 \
    }
static const struct rtc_functions wrappers[LIBRARIES_MAX] = { ROW(0), ROW(1), ROW(2),
                                                              ROW(3), ROW(4), ROW(5) };
_Static_assert(RTC_OUTPUTS_MAX == 6, "output 6 of the wrappers is the log");
#define COMGR_ROW(n)                                                                      \
    {                                                                                     \
        .act = act_##n, .create_info = create_info_##n, .destroy_info = destroy_info_##n, \
        .set_isa = set_isa_##n, .set_directory = set_directory_##n,                       \
        .set_device_libraries = set_device_libraries_##n, .set_vfs = set_vfs_##n          \
    }
static const struct comgr_wrapped comgr_wrappers[LIBRARIES_MAX] = { COMGR_ROW(0), COMGR_ROW(1),
                                                                    COMGR_ROW(2), COMGR_ROW(3),
                                                                    COMGR_ROW(4), COMGR_ROW(5) };
/* wrapper() uses a function's index in |names| as its index in the struct */
_Static_assert(sizeof(struct rtc_functions) == FUNCTIONS * sizeof(void *), "no padding");

static void *wrapper(const struct rtc_library *library, int function)
{
    void *found;
    ptrdiff_t slot = library - libraries;
    const char *functions = library->kind == RTC_COMGR ? (const char *)&comgr_wrappers[slot]
                                                       : (const char *)&wrappers[slot];
    memcpy(&found, functions + (size_t)function * sizeof(found), sizeof(found));
    return found;
}

/* ---- libraries ---- */

static void find_comgr_functions(struct rtc_library *library, void *handle)
{
    void *found[COMGR_FUNCTIONS];
    for (size_t i = 0; i < COMGR_FUNCTIONS; i++)
        found[i] = preload_real_dlsym(handle, i < COMGR_WRAPPED ? names[RTC_COMGR][i]
                                                                : comgr_names[i - COMGR_WRAPPED]);
    memcpy(&library->comgr, found, sizeof(found));
}

static void find_functions(struct rtc_library *library, void *handle)
{
    void *found[FUNCTIONS];
    if (library->kind == RTC_COMGR) {
        find_comgr_functions(library, handle);
        return;
    }
    for (int i = 0; i < FUNCTIONS; i++) {
        const char *name = names[library->kind][i];
        found[i] = name ? preload_real_dlsym(handle, name) : NULL;
    }
    memcpy(&library->real, found, sizeof(found));
}

static bool is_optional(size_t index)
{
    return index == COMGR_INDEX(option_text) || index == COMGR_INDEX(wrapped.set_vfs) ||
           index == COMGR_INDEX(wrapped.set_device_libraries);
}

static bool has_comgr_functions(const struct rtc_library *library, size_t count)
{
    void *found[COMGR_FUNCTIONS];
    memcpy(found, &library->comgr, sizeof(found));
    for (size_t i = 0; i < count; i++)
        if (!found[i] && !is_optional(i))
            return false;
    return true;
}

bool rtc_has_all_functions(const struct rtc_library *comgr)
{
    return has_comgr_functions(comgr, COMGR_FUNCTIONS);
}

static bool is_complete(const struct rtc_library *library)
{
    const struct rtc_functions *real = &library->real;
    if (library->kind == RTC_COMGR)
        return has_comgr_functions(library, COMGR_ALWAYS);
    return real->create && real->destroy && real->add_name && real->compile && real->lowered &&
           real->log.size && real->log.get && real->outputs[0].size && real->outputs[0].get;
}

void *rtc_first_function(const struct rtc_library *library)
{
    void *function;
    if (library->kind == RTC_COMGR)
        memcpy(&function, &library->comgr.wrapped.act, sizeof(function));
    else
        memcpy(&function, &library->real.create, sizeof(function));
    return function;
}

/* Returns the slot of the library that is mapped at |base|.  If there is none, returns an empty
 * slot, or NULL if all slots are in use.  If a library was unloaded and another one is now mapped
 * at its address, the new library gets the old one's slot. */
static struct rtc_library *slot_of(const void *base)
{
    struct rtc_library *empty = NULL;
    for (size_t i = 0; i < LIBRARIES_MAX; i++) {
        if (libraries[i].base == base)
            return &libraries[i];
        if (!libraries[i].base && !empty)
            empty = &libraries[i];
    }
    return empty;
}

static int take_unloads(struct dl_phdr_info *info, size_t size, void *context)
{
    unsigned long long *unloads = context;
    (void)size;
    *unloads = info->dlpi_subs;
    return 1;
}

static unsigned long long count_unloads(void)
{
    unsigned long long unloads = 0;
    dl_iterate_phdr(take_unloads, &unloads);
    return unloads;
}

/* Returns the slot of the library |now| if it was stored before, otherwise NULL.  Uses only |base|,
 * |kind| and |unloads| of |now|. */
static struct rtc_library *find_known(const struct rtc_library *now)
{
    rtc_lock(RTC_LOCK_LIBRARIES);
    struct rtc_library *slot = slot_of(now->base);
    bool is_known = slot && slot->base && slot->kind == now->kind && slot->unloads == now->unloads;
    rtc_unlock(RTC_LOCK_LIBRARIES);
    return is_known ? slot : NULL;
}

/* Stores |now| in its slot.  Returns NULL if no slot is left. */
static struct rtc_library *keep(const struct rtc_library *now, bool *ret_is_new)
{
    rtc_lock(RTC_LOCK_LIBRARIES);
    struct rtc_library *slot = slot_of(now->base);
    *ret_is_new = slot && (!slot->base || slot->kind != now->kind ||
                           memcmp(&slot->real, &now->real, sizeof(now->real)) != 0 ||
                           memcmp(&slot->comgr, &now->comgr, sizeof(now->comgr)) != 0);
    if (*ret_is_new)
        *slot = *now;
    if (slot)
        slot->unloads = now->unloads;
    rtc_unlock(RTC_LOCK_LIBRARIES);
    return slot;
}

/* Returns the library that contains the function |real|, and fills its slot if the library is new.
 * Returns NULL if the library cannot be wrapped.  Holds no lock while it calls the dynamic linker,
 * because another thread may hold the dynamic linker's lock and call dlsym in a library's
 * constructor. */
static struct rtc_library *find_library(enum rtc_kind kind, void *real)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1(real, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return NULL;
    struct rtc_library now = { .base = info.dli_fbase, .kind = kind, .unloads = count_unloads() };
    struct rtc_library *library = find_known(&now);
    void *handle = library ? NULL : dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return library;
    find_functions(&now, handle);
    dlclose(handle);
    bool is_new = false;
    library = is_complete(&now) ? keep(&now, &is_new) : NULL;
    if (is_new)
        settings_note_library(kind_names[kind], map->l_name);
    return library;
}

static void take_identity(struct rtc_library *library, const struct rtc_library *now)
{
    memcpy(library->code, now->code, sizeof(now->code));
    memcpy(library->name, now->name, sizeof(now->name));
    library->identity = now->identity;
    library->trouble = now->trouble;
    library->is_identified = now->is_identified;
    atomic_store_explicit(&library->code_count, now->code_count, memory_order_release);
}

void rtc_identify(struct rtc_library *library)
{
    rtc_lock(RTC_LOCK_LIBRARIES);
    bool is_identified = library->is_identified;
    struct rtc_library now = *library;
    rtc_unlock(RTC_LOCK_LIBRARIES);
    if (is_identified)
        return;
    now.is_identified = identity_find(&now);
    rtc_lock(RTC_LOCK_LIBRARIES);
    if (!library->is_identified && library->base == now.base)
        take_identity(library, &now);
    rtc_unlock(RTC_LOCK_LIBRARIES);
}

bool rtc_is_compiler_code(const void *address)
{
    for (size_t i = 0; i < LIBRARIES_MAX; i++) {
        const struct rtc_library *l = &libraries[i];
        size_t count = atomic_load_explicit(&l->code_count, memory_order_acquire);
        for (size_t k = 0; k < count; k++)
            if ((const char *)address >= l->code[k].begin && (const char *)address < l->code[k].end)
                return true;
    }
    return false;
}

static bool is_own(const void *address)
{
    Dl_info info, own;
    return dladdr(address, &info) && dladdr(libraries, &own) && info.dli_fbase == own.dli_fbase;
}

void *rtc_wrapper_of(int number, void *real)
{
    enum rtc_kind kind = (enum rtc_kind)(number / FUNCTIONS);
    int function = number % FUNCTIONS;
    /* dlsym has found the function of linked.c, so look for the real one in the next libraries */
    if (is_own(real))
        real = preload_real_dlsym(RTLD_NEXT, names[kind][function]);
    if (!real)
        return NULL;
    struct rtc_library *library = find_library(kind, real);
    return library ? wrapper(library, function) : real;
}

/* Returns the real function names[kind][FIRST] for a caller that links it.  Searches the libraries
 * that the program links, then the libraries that the calling library itself links.  Returns NULL
 * if no library has the function. */
static void *find_linked(enum rtc_kind kind, const void *caller)
{
    Dl_info info;
    struct link_map *map = NULL;
    const char *name = names[kind][FIRST];
    void *real = preload_real_dlsym(RTLD_NEXT, name);
    if (real || !dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return real;
    void *handle = dlopen(map->l_name[0] ? map->l_name : NULL, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    real = preload_real_dlsym(handle, name);
    dlclose(handle);
    return real && !is_own(real) ? real : NULL;
}

struct rtc_library *rtc_linked_library(enum rtc_kind kind, const void *caller)
{
    void *real = find_linked(kind, caller);
    if (!real)
        return NULL;
    struct rtc_library *library = find_library(kind, real);
    return library;
}
