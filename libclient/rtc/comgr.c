/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/comgr.h"

#include "common/base/clock.h"
#include "engine/digest/sha256.h"
#include "libclient/rtc/answer.h"
#include "libclient/rtc/comgr_data.h"
#include "libclient/rtc/files.h"
#include "libclient/rtc/key.h"
#include "libclient/rtc/locks.h"
#include "libclient/rtc/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIPTION_MAX (1u << 20)

/* Whether an action uses a feature. CHOICE_OF_COMGR: the application has not chosen, so comgr
 * decides. */
enum choice { CHOICE_OF_COMGR, CHOICE_NO, CHOICE_YES };

struct info { /* an amd_comgr_action_info_t */
    struct hash_link link;
    const struct rtc_library *library;
    uint64_t handle;
    char *isa, *directory;
    enum choice device_libraries, vfs;
    bool is_incomplete;
};

static struct {
    struct hash_table by_handle;
} infos;

static uint64_t hash_of(struct comgr_handle handle) { return handle.value * 0x9e3779b97f4a7c15u; }

static struct info *find_locked(const struct rtc_library *library, struct comgr_handle handle)
{
    HASH_EACH (&infos.by_handle, hash_of(handle), struct info, link, info)
        if (info->handle == handle.value && info->library == library)
            return info;
    return NULL;
}

static struct info *find_info(const struct rtc_library *library, struct comgr_handle handle)
{
    rtc_lock(RTC_LOCK_INFOS);
    struct info *info = find_locked(library, handle);
    rtc_unlock(RTC_LOCK_INFOS);
    return info;
}

static void free_info(struct info *info)
{
    if (!info)
        return;
    free(info->isa);
    free(info->directory);
    free(info);
}

static void forget_info(const struct rtc_library *library, struct comgr_handle handle)
{
    rtc_lock(RTC_LOCK_INFOS);
    struct info *info = find_locked(library, handle);
    if (info)
        hash_table_remove(&infos.by_handle, &info->link);
    rtc_unlock(RTC_LOCK_INFOS);
    free_info(info);
}

int comgr_create_info(struct rtc_library *library, struct comgr_handle *ret_info)
{
    int rc = library->comgr.wrapped.create_info(ret_info);
    struct info *info = rc ? NULL : calloc(1, sizeof(*info));
    if (rc)
        return rc;
    forget_info(library, *ret_info);
    if (!info)
        return 0;
    info->library = library;
    info->handle = ret_info->value;
    rtc_lock(RTC_LOCK_INFOS);
    hash_table_add(&infos.by_handle, &info->link, hash_of(*ret_info));
    rtc_unlock(RTC_LOCK_INFOS);
    return 0;
}

int comgr_destroy_info(struct rtc_library *library, struct comgr_handle info)
{
    forget_info(library, info);
    return library->comgr.wrapped.destroy_info(info);
}

static void keep_setting(struct info *info, char **setting, const char *value)
{
    free(*setting);
    *setting = value ? strdup(value) : NULL;
    info->is_incomplete |= value && !*setting;
}

int comgr_set_isa(struct rtc_library *library, struct comgr_handle handle, const char *isa)
{
    int rc = library->comgr.wrapped.set_isa(handle, isa);
    struct info *info = rc ? NULL : find_info(library, handle);
    if (info)
        keep_setting(info, &info->isa, isa);
    return rc;
}

int comgr_set_directory(struct rtc_library *library, struct comgr_handle handle, const char *path)
{
    int rc = library->comgr.wrapped.set_directory(handle, path);
    struct info *info = rc ? NULL : find_info(library, handle);
    if (info)
        keep_setting(info, &info->directory, path);
    return rc;
}

int comgr_set_device_libraries(struct rtc_library *library, struct comgr_handle handle, bool links)
{
    int rc = library->comgr.wrapped.set_device_libraries(handle, links);
    struct info *info = rc ? NULL : find_info(library, handle);
    if (info)
        info->device_libraries = links ? CHOICE_YES : CHOICE_NO;
    return rc;
}

int comgr_set_vfs(struct rtc_library *library, struct comgr_handle handle, bool is_used)
{
    int rc = library->comgr.wrapped.set_vfs(handle, is_used);
    struct info *info = rc ? NULL : find_info(library, handle);
    if (info)
        info->vfs = is_used ? CHOICE_YES : CHOICE_NO;
    return rc;
}

struct action {
    struct rtc_program program; /* must be the first member */
    const struct comgr_call *call;
};

static const struct comgr_functions *functions_of(const struct action *a)
{
    return &a->program.library->comgr;
}

static void put_setting(struct buffer *to, const char *value)
{
    buffer_put_u8(to, value != NULL);
    buffer_put_sized(to, bytes_of_text(value ? value : ""));
}

static const char *take_settings(struct action *a, const struct info *info)
{
    const struct comgr_functions *f = functions_of(a);
    const char *processor = info->isa ? strstr(info->isa, "--") : NULL;
    struct buffer *to = &a->program.action;
    int language;
    bool logging;
    if (f->language(a->call->info, &language) || f->logging(a->call->info, &logging))
        return "comgr does not return the action's settings";
    buffer_put_u32(to, (uint32_t)a->call->kind);
    buffer_put_u32(to, (uint32_t)language);
    buffer_put_u8(to, logging);
    put_setting(to, info->isa);
    put_setting(to, info->directory);
    buffer_put_u8(to, (uint8_t)info->device_libraries);
    buffer_put_u8(to, (uint8_t)info->vfs);
    if (processor)
        snprintf(a->program.architecture, sizeof(a->program.architecture), "%s", processor + 2);
    return NULL;
}

static char *copy_option(const struct comgr_functions *f, struct comgr_handle info, size_t index)
{
    size_t size = 0;
    char *option = f->option(info, index, &size, NULL) ? NULL : calloc(1, size + 1);
    if (option && f->option(info, index, &size, option) == 0)
        return option;
    free(option);
    return NULL;
}

static const char *take_options(struct action *a)
{
    const struct comgr_functions *f = functions_of(a);
    struct rtc_program *p = &a->program;
    struct comgr_handle info = a->call->info;
    size_t count = 0, size = 0;
    bool is_list = f->option_count(info, &count) == 0;
    buffer_put_u8(&p->action, is_list);
    if (!is_list && (f->option_text(info, &size, NULL) || size > 1)) /* |size| includes a NUL */
        return "the options are given as one text";
    p->options = count ? calloc(count, sizeof(*p->options)) : NULL;
    if (count && !p->options)
        return "out of memory";
    for (; p->option_count < count; p->option_count++)
        if (!(p->options[p->option_count] = copy_option(f, info, p->option_count)))
            return "out of memory";
    return NULL;
}

static const char *describe(struct action *a)
{
    const struct rtc_library *library = a->program.library;
    const struct info *info = find_info(library, a->call->info);
    buffer_init(&a->program.action, DESCRIPTION_MAX);
    if (library->trouble)
        return library->trouble;
    if (!info || info->is_incomplete)
        return "the action's settings are not known";
    if (!comgr_set_is_empty(functions_of(a), a->call->results))
        return "the set for the results is not empty";
    const char *reason = take_settings(a, info);
    if (!reason)
        reason = take_options(a);
    if (!reason)
        reason = comgr_take_inputs(functions_of(a), a->call->inputs, &a->program);
    return !reason && a->program.action.failed ? "too many inputs" : reason;
}

static int act_real(const struct rtc_library *library, const struct comgr_call *call)
{
    return library->comgr.wrapped.act(call->kind, call->info, call->inputs, call->results);
}

static int run(struct rtc_program *p) { return act_real(p->library, ((struct action *)p)->call); }

static bool collect(struct rtc_program *p, struct buffer *to)
{
    const struct action *a = (const struct action *)p;
    return comgr_put_results(functions_of(a), a->call->results, to);
}

static bool use(struct rtc_program *p, struct kiln_kernel *stored)
{
    const struct action *a = (const struct action *)p;
    bool is_used = comgr_add_results(functions_of(a), a->call->results,
                                     bytes_of(kiln_kernel_data(stored), kiln_kernel_size(stored)));
    kiln_kernel_unref(stored);
    return is_used;
}

/* Returns whether actions of this kind compile or link, and have no other effect than to add
 * results to a set.  The numbers of the kinds differ between comgr 2 and comgr 3. */
static bool is_compile(const struct rtc_library *library, int kind)
{
    static const struct {
        int comgr_2, comgr_3;
    } kinds[] = {
        { 0x2, 0x2 },  /* COMPILE_SOURCE_TO_BC */
        { 0x4, 0x3 },  /* LINK_BC_TO_BC */
        { 0x6, 0x4 },  /* CODEGEN_BC_TO_RELOCATABLE */
        { 0x9, 0x7 },  /* LINK_RELOCATABLE_TO_EXECUTABLE */
        { 0xa, 0x8 },  /* ASSEMBLE_SOURCE_TO_RELOCATABLE */
        { 0xf, 0xc },  /* COMPILE_SOURCE_WITH_DEVICE_LIBS_TO_BC */
        { 0x10, 0xd }, /* COMPILE_SOURCE_TO_RELOCATABLE */
        { 0x11, 0xe }, /* COMPILE_SOURCE_TO_EXECUTABLE */
    };
    size_t major = 0, minor = 0;
    library->comgr.version(&major, &minor);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kind == (major < 3 ? kinds[i].comgr_2 : kinds[i].comgr_3))
            return true;
    return false;
}

static int answer(struct rtc_library *library, const struct comgr_call *call)
{
    static const struct answer_calls calls = { .run = run, .collect = collect, .use = use };
    struct action a = { .program.library = library,
                        .program.wanted_ns = clock_monotonic_ns(),
                        .call = call };
    int rc;
    rtc_identify(library);
    const char *reason = describe(&a);
    if (!reason)
        reason = key_obstacle(&a.program);
    if (!reason) {
        a.program.source_digest = sha256_of(bytes_of_text(a.program.source));
        rc = answer_compile(&calls, &a.program, NULL);
    } else {
        settings_count_forwarded(reason, a.program.name);
        rc = act_real(library, call);
    }
    rtc_program_done(&a.program);
    return rc;
}

int comgr_act(struct rtc_library *library, const struct comgr_call *call)
{
    (void)key_environment_has_changed();
    /* hiprtc compiles by calling comgr. A call on a thread that notes files comes from hiprtc, so
     * the real comgr handles the call: kilnd stores hiprtc's result instead. */
    if (!is_compile(library, call->kind) || settings_mode() == RTC_OFF || files_are_noted())
        return act_real(library, call);
    return answer(library, call);
}
