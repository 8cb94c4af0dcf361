/* SPDX-License-Identifier: MIT */
/* Compiles with comgr as MIOpen does, and prints what comgr returns. Usage:
 *
 *   comgr_job [--library PATH] [--chain opencl|assembly|hip|relocatable|executable|preprocess]
 *             [--isa NAME] [--name NAME]
 *             [--include NAME=TEXT]... [--option OPTION]... [--directory PATH] [--no-log]
 *             [--device-libraries 0|1] [--vfs 0|1] [--environment NAME=VALUE]
 *             [--text OPTIONS] [--input KIND] [--result KIND] SOURCE...
 *
 * Without --library, it calls the library that it is linked with. --environment changes the
 * environment after the first source. --text gives the options as one text, --input adds an object
 * of the kind to the inputs, and --result adds one to the set for the results. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The interface of comgr 2, and settings of comgr 3. */
typedef struct {
    uint64_t value;
} handle;

typedef int symbol_fn(handle symbol, void *context);
int amd_comgr_create_data(int kind, handle *ret);
int amd_comgr_release_data(handle data);
int amd_comgr_set_data(handle data, size_t size, const char *bytes);
int amd_comgr_set_data_name(handle data, const char *name);
int amd_comgr_get_data(handle data, size_t *size, char *bytes);
int amd_comgr_get_data_name(handle data, size_t *size, char *name);
int amd_comgr_get_data_kind(handle data, int *ret);
int amd_comgr_get_data_isa_name(handle data, size_t *size, char *name);
int amd_comgr_iterate_symbols(handle data, symbol_fn *each, void *context);
int amd_comgr_create_data_set(handle *ret);
int amd_comgr_destroy_data_set(handle set);
int amd_comgr_data_set_add(handle set, handle data);
int amd_comgr_action_data_count(handle set, int kind, size_t *ret);
int amd_comgr_action_data_get_data(handle set, int kind, size_t index, handle *ret);
int amd_comgr_create_action_info(handle *ret);
int amd_comgr_destroy_action_info(handle info);
int amd_comgr_action_info_set_isa_name(handle info, const char *isa);
int amd_comgr_action_info_set_language(handle info, int language);
int amd_comgr_action_info_set_option_list(handle info, const char *options[], size_t count);
int amd_comgr_action_info_set_working_directory_path(handle info, const char *path);
int amd_comgr_action_info_set_logging(handle info, bool logging);
int amd_comgr_do_action(int kind, handle info, handle inputs, handle results);
void amd_comgr_get_version(size_t *major, size_t *minor);
typedef int set_flag_fn(handle info, bool value);

/* clang-format off */
#define EACH_FUNCTION(F) \
    F(create_data) F(release_data) F(set_data) F(set_data_name) F(get_data) F(get_data_name) \
    F(get_data_kind) F(get_data_isa_name) F(iterate_symbols) F(create_data_set) \
    F(destroy_data_set) F(data_set_add) F(action_data_count) F(action_data_get_data) \
    F(create_action_info) F(destroy_action_info) F(action_info_set_isa_name) \
    F(action_info_set_language) F(action_info_set_option_list) \
    F(action_info_set_working_directory_path) F(action_info_set_logging) F(do_action) F(get_version)
/* clang-format on */

#define MEMBER(name) __typeof__(&amd_comgr_##name) name;
static struct {
    EACH_FUNCTION(MEMBER)
    set_flag_fn *set_device_libraries, *set_vfs;          /* NULL in old versions */
    int (*set_options)(handle info, const char *options); /* NULL in comgr 3 */
} api;

enum { LANGUAGE_OPENCL_1_2 = 1, LANGUAGE_HIP_2 = 4, LANGUAGE_HIP_3 = 3 };
enum { SOURCE = 1, INCLUDE = 2, LOG = 5, EXECUTABLE = 8, LAST_KIND = 16 };
enum {
    END = -1, /* ends the list of actions of a chain */
    PREPROCESS_SOURCE = 0x0,
    ADD_PRECOMPILED_HEADERS = 0x1,
    COMPILE_SOURCE_TO_BC = 0x2,
    ADD_DEVICE_LIBRARIES = 0x3,
    LINK_BC_TO_BC = 0x4,
    CODEGEN_BC_TO_RELOCATABLE = 0x6,
    LINK_RELOCATABLE_TO_EXECUTABLE = 0x9,
    ASSEMBLE_SOURCE_TO_RELOCATABLE = 0xa,
    COMPILE_SOURCE_WITH_DEVICE_LIBS_TO_BC = 0xf,
    COMPILE_SOURCE_TO_RELOCATABLE = 0x10, /* since comgr 2.5 */
    COMPILE_SOURCE_TO_EXECUTABLE = 0x11,  /* since comgr 2.8 */
};

#define OPTIONS_MAX 32
static struct {
    const char *library, *chain, *isa, *name, *directory, *environment, *device_libraries, *vfs;
    const char *text, *input, *result;
    const char *options[OPTIONS_MAX], *includes[OPTIONS_MAX];
    size_t option_count, include_count;
    bool has_no_log;
} given = { .chain = "opencl", .isa = "amdgcn-amd-amdhsa--gfx906", .name = "k.cl" };

static void load(void)
{
#ifdef LINKED
#define TAKE(name) api.name = amd_comgr_##name;
    if (!given.library) {
        EACH_FUNCTION(TAKE)
        return;
    }
#endif
    void *library = given.library ? dlopen(given.library, RTLD_NOW) : NULL;
    if (!library) {
        fprintf(stderr, "comgr_job: %s\n", given.library ? dlerror() : "--library is missing");
        exit(2);
    }
#define LOOK_UP(name)                                     \
    {                                                     \
        void *found = dlsym(library, "amd_comgr_" #name); \
        memcpy(&api.name, &found, sizeof(found));         \
    }
    EACH_FUNCTION(LOOK_UP)
    void *found = dlsym(library, "amd_comgr_action_info_set_device_lib_linking");
    memcpy(&api.set_device_libraries, &found, sizeof(found));
    found = dlsym(library, "amd_comgr_action_info_set_vfs");
    memcpy(&api.set_vfs, &found, sizeof(found));
    found = dlsym(library, "amd_comgr_action_info_set_options");
    memcpy(&api.set_options, &found, sizeof(found));
}

static void require(int rc)
{
    if (!rc)
        return;
    fprintf(stderr, "comgr_job: a call failed with %d\n", rc);
    exit(3);
}

static char *copy_of(int (*get)(handle, size_t *, char *), handle data, size_t *ret_size)
{
    *ret_size = 0;
    require(get(data, ret_size, NULL));
    char *bytes = calloc(1, *ret_size + 1);
    require(get(data, ret_size, bytes));
    return bytes;
}

static int count_symbol(handle symbol, void *context)
{
    (void)symbol;
    ++*(int *)context;
    return 0;
}

static void print_executable(handle data)
{
    size_t size;
    int symbols = 0;
    char *isa = copy_of(api.get_data_isa_name, data, &size);
    require(api.iterate_symbols(data, count_symbol, &symbols));
    printf("  isa %s, %d symbols\n", isa, symbols);
    free(isa);
}

static void print_object(handle data)
{
    size_t size, name_size;
    int kind;
    unsigned long hash = 1469598103934665603ul;
    char *name = copy_of(api.get_data_name, data, &name_size);
    char *bytes = copy_of(api.get_data, data, &size);
    require(api.get_data_kind(data, &kind));
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211ul;
    if (kind == LOG)
        printf("  log %s [%s]\n", name, bytes);
    else
        printf("  kind %d %s %zu %016lx\n", kind, name, size, hash);
    if (kind == EXECUTABLE)
        print_executable(data);
    free(name);
    free(bytes);
}

static void print_set(handle set)
{
    for (int kind = 1; kind <= LAST_KIND; kind++) {
        size_t count = 0;
        require(api.action_data_count(set, kind, &count));
        for (size_t i = 0; i < count; i++) {
            handle data;
            require(api.action_data_get_data(set, kind, i, &data));
            print_object(data);
            require(api.release_data(data));
        }
    }
}

static void add(handle set, int kind, const char *name, const char *text)
{
    handle data;
    require(api.create_data(kind, &data));
    require(api.set_data_name(data, name));
    require(api.set_data(data, strlen(text), text));
    require(api.data_set_add(set, data));
    require(api.release_data(data));
}

static bool is_comgr_2(void)
{
    size_t major, minor;
    api.get_version(&major, &minor);
    return major < 3;
}

/* |kind| is the number of an action in comgr 2. Returns the number of the same action in the loaded
 * version of comgr. */
static int number_of(int kind)
{
    static const int comgr_3[] = {
        [LINK_BC_TO_BC] = 0x3,
        [CODEGEN_BC_TO_RELOCATABLE] = 0x4,
        [LINK_RELOCATABLE_TO_EXECUTABLE] = 0x7,
        [ASSEMBLE_SOURCE_TO_RELOCATABLE] = 0x8,
        [COMPILE_SOURCE_WITH_DEVICE_LIBS_TO_BC] = 0xc,
        [COMPILE_SOURCE_TO_RELOCATABLE] = 0xd,
        [COMPILE_SOURCE_TO_EXECUTABLE] = 0xe,
    };
    return is_comgr_2() || !comgr_3[kind] ? kind : comgr_3[kind];
}

static int act(int kind, handle info, handle *set)
{
    handle results;
    require(api.create_data_set(&results));
    if (given.result)
        add(results, atoi(given.result), "before", "text");
    int rc = api.do_action(number_of(kind), info, *set, results);
    printf("action %d: %d\n", kind, rc);
    if (kind != ADD_PRECOMPILED_HEADERS && kind != ADD_DEVICE_LIBRARIES)
        print_set(results);
    require(api.destroy_data_set(*set));
    *set = results;
    return rc;
}

struct step {
    int kind;
    const char *options[8]; /* NULL means the options of the command line */
};

static const struct step opencl[] = {
    { ADD_PRECOMPILED_HEADERS, { NULL } },
    { COMPILE_SOURCE_WITH_DEVICE_LIBS_TO_BC, { NULL } },
    { CODEGEN_BC_TO_RELOCATABLE, { NULL } },
    { LINK_RELOCATABLE_TO_EXECUTABLE, { "" } },
    { END, { NULL } },
};
static const struct step assembly[] = {
    { ASSEMBLE_SOURCE_TO_RELOCATABLE, { NULL } },
    { LINK_RELOCATABLE_TO_EXECUTABLE, { "" } },
    { END, { NULL } },
};
static const struct step hip[] = {
    { COMPILE_SOURCE_TO_BC, { NULL } },
    { ADD_DEVICE_LIBRARIES, { "wavefrontsize64", "daz_opt", "finite_only", "unsafe_math" } },
    { LINK_BC_TO_BC, { NULL } },
    { CODEGEN_BC_TO_RELOCATABLE, { "-O3" } },
    { LINK_RELOCATABLE_TO_EXECUTABLE, { "" } },
    { END, { NULL } },
};
static const struct step relocatable[] = {
    { COMPILE_SOURCE_TO_RELOCATABLE, { NULL } },
    { LINK_RELOCATABLE_TO_EXECUTABLE, { "" } },
    { END, { NULL } },
};
static const struct step executable[] = {
    { COMPILE_SOURCE_TO_EXECUTABLE, { NULL } },
    { END, { NULL } },
};
static const struct step preprocess[] = {
    { PREPROCESS_SOURCE, { NULL } },
    { END, { NULL } },
};

static void set_options(handle info, const struct step *step)
{
    const char *options[OPTIONS_MAX];
    size_t count = 0;
    if (given.text) {
        require(api.set_options(info, given.text));
        return;
    }
    if (!step->options[0]) {
        require(api.action_info_set_option_list(info, given.options, given.option_count));
        return;
    }
    for (; step->options[count] && step->options[count][0]; count++)
        options[count] = step->options[count];
    require(api.action_info_set_option_list(info, options, count));
}

static handle make_inputs(const char *source)
{
    handle set;
    require(api.create_data_set(&set));
    add(set, SOURCE, given.name, source);
    if (given.input)
        add(set, atoi(given.input), "other", "text");
    for (size_t i = 0; i < given.include_count; i++) {
        const char *text = strchr(given.includes[i], '=') + 1;
        char *name = strndup(given.includes[i], (size_t)(text - 1 - given.includes[i]));
        add(set, INCLUDE, name, text);
        free(name);
    }
    return set;
}

static const struct step *chosen_chain(void)
{
    static const struct {
        const char *name;
        const struct step *steps;
    } chains[] = {
        { "opencl", opencl },           { "assembly", assembly },     { "hip", hip },
        { "relocatable", relocatable }, { "executable", executable }, { "preprocess", preprocess },
    };
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++)
        if (strcmp(given.chain, chains[i].name) == 0)
            return chains[i].steps;
    fprintf(stderr, "comgr_job: bad chain '%s'\n", given.chain);
    exit(2);
}

static int language_of(const struct step *chain)
{
    if (chain == opencl || chain == preprocess)
        return LANGUAGE_OPENCL_1_2;
    return is_comgr_2() ? LANGUAGE_HIP_2 : LANGUAGE_HIP_3;
}

static void compile(const char *source)
{
    handle info, set = make_inputs(source);
    const struct step *step = chosen_chain();
    require(api.create_action_info(&info));
    require(api.action_info_set_isa_name(info, given.isa));
    require(api.action_info_set_logging(info, !given.has_no_log));
    if (step != assembly)
        require(api.action_info_set_language(info, language_of(step)));
    if (given.device_libraries)
        require(api.set_device_libraries(info, strcmp(given.device_libraries, "1") == 0));
    if (given.vfs)
        require(api.set_vfs(info, strcmp(given.vfs, "1") == 0));
    if (given.directory)
        require(api.action_info_set_working_directory_path(info, given.directory));
    for (int rc = 0; !rc && step->kind != END; step++) {
        set_options(info, step);
        rc = act(step->kind, info, &set);
    }
    require(api.destroy_data_set(set));
    require(api.destroy_action_info(info));
}

static bool take_option(const char *name, const char *value)
{
    if (strcmp(name, "--library") == 0)
        given.library = value;
    else if (strcmp(name, "--chain") == 0)
        given.chain = value;
    else if (strcmp(name, "--isa") == 0)
        given.isa = value;
    else if (strcmp(name, "--name") == 0)
        given.name = value;
    else if (strcmp(name, "--directory") == 0)
        given.directory = value;
    else if (strcmp(name, "--environment") == 0)
        given.environment = value;
    else if (strcmp(name, "--device-libraries") == 0)
        given.device_libraries = value;
    else if (strcmp(name, "--vfs") == 0)
        given.vfs = value;
    else if (strcmp(name, "--text") == 0)
        given.text = value;
    else if (strcmp(name, "--input") == 0)
        given.input = value;
    else if (strcmp(name, "--result") == 0)
        given.result = value;
    else if (strcmp(name, "--option") == 0 && given.option_count < OPTIONS_MAX)
        given.options[given.option_count++] = value;
    else if (strcmp(name, "--include") == 0 && given.include_count < OPTIONS_MAX)
        given.includes[given.include_count++] = value;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    int at = 1;
    while (at < argc && strncmp(argv[at], "--", 2) == 0) {
        if (strcmp(argv[at], "--no-log") == 0) {
            given.has_no_log = true;
            at++;
        } else if (at + 1 < argc && take_option(argv[at], argv[at + 1])) {
            at += 2;
        } else {
            fprintf(stderr, "comgr_job: bad option '%s'\n", argv[at]);
            return 2;
        }
    }
    load();
    for (bool is_first = true; at < argc; at++, is_first = false) {
        if (!is_first && given.environment)
            putenv(strdup(given.environment));
        compile(argv[at]);
    }
    return 0;
}
