/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/key.h"

#include "engine/digest/sha256.h"
#include "libclient/rtc/locks.h"
#include "libclient/rtc/names.h"
#include "libclient/rtc/variables.h"
#include "libclient/rtc/words.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- options ---- */

/* NVRTC's options (its manual, chapter "Supported Compile Options"), except options that write
 * files, read precompiled headers or print times.  Options are listed without leading dashes and
 * values. */
static const char *const nvrtc_options[] = {
    "gpu-architecture",
    "arch",
    "device-c",
    "dc",
    "device-w",
    "dw",
    "relocatable-device-code",
    "rdc",
    "extensible-whole-program",
    "ewp",
    "device-debug",
    "G",
    "generate-line-info",
    "lineinfo",
    "dopt",
    "ptxas-options",
    "Xptxas",
    "maxrregcount",
    "ftz",
    "prec-sqrt",
    "prec-div",
    "fmad",
    "use_fast_math",
    "extra-device-vectorization",
    "modify-stack-limit",
    "dlink-time-opt",
    "dlto",
    "gen-opt-lto",
    "optix-ir",
    "jump-table-density",
    "device-stack-protector",
    "no-cache",
    "frandom-seed",
    "define-macro",
    "D",
    "undefine-macro",
    "U",
    "include-path",
    "I",
    "pre-include",
    "include",
    "no-source-include",
    "std",
    "builtin-move-forward",
    "builtin-initializer-list",
    "disable-warnings",
    "w",
    "restrict",
    "device-as-default-execution-space",
    "default-device",
    "device-int128",
    "device-float128",
    "optimization-info",
    "opt-info",
    "display-error-number",
    "no-display-error-number",
    "diag-error",
    "diag-suppress",
    "diag-warn",
    "brief-diagnostics",
    "minimal",
    "version-ident",
    "fdevice-syntax-only",
    NULL,
};

/* Options of NVRTC whose value may be the next argument. */
static const char *const nvrtc_values[] = {
    "gpu-architecture",
    "arch",
    "ptxas-options",
    "Xptxas",
    "maxrregcount",
    "define-macro",
    "D",
    "undefine-macro",
    "U",
    "include-path",
    "I",
    "pre-include",
    "include",
    "std",
    "diag-error",
    "diag-suppress",
    "diag-warn",
    NULL,
};

/* The options of clang that MIOpen, PyTorch and CuPy use, and similar options. hiprtc and comgr
 * accept clang's options. */
static const char *const clang_options[] = {
    "offload-arch",
    "gpu-architecture",
    "std",
    "D",
    "U",
    "I",
    "O0",
    "O1",
    "O2",
    "O3",
    "Os",
    "g",
    "w",
    "include",
    "isystem",
    "ffast-math",
    "fno-fast-math",
    "ffp-contract",
    "fgpu-rdc",
    "fno-gpu-rdc",
    "fno-offload-uniform-block",
    "munsafe-fp-atomics",
    "mcumode",
    "mno-cumode",
    "mwavefrontsize64",
    "mno-wavefrontsize64",
    "mxnack",
    "mno-xnack",
    "msram-ecc",
    "mno-sram-ecc",
    "mcode-object-version",
    "mcode-object-v3",
    "mno-code-object-v3",
    "mllvm",
    "fgpu-flush-denormals-to-zero",
    "fno-gpu-flush-denormals-to-zero",
    "default-device",
    "nogpuinc",
    "nogpulib",
    "rocm-path",
    NULL,
};

static const char *const clang_values[] = { "D", "U", "I", "include", "isystem", "mllvm", NULL };

/* Options of LLVM that MIOpen gives after -mllvm.  Other options of LLVM may have side effects,
 * such as printing. */
static const char *const llvm_options[] = {
    "amdgpu-early-inline-all",     "amdgpu-prelink",
    "amdgpu-internalize-symbols",  "amdgpu-function-calls",
    "amdgpu-spill-vgpr-to-agpr",   "enable-post-misched",
    "amdgpu-coerce-illegal-types", NULL,
};

static bool is_listed(const char *const *list, const char *name, size_t size)
{
    for (; *list; list++)
        if (strlen(*list) == size && memcmp(*list, name, size) == 0)
            return true;
    return false;
}

/* Finds the option's name without dashes and value, and returns its length.  For example, the name
 * in "-DN=1" is "D", and the name in "--std=c++17" is "std". */
static size_t option_name(const char *option, const char **ret_name)
{
    const char *name = option + strspn(option, "-");
    *ret_name = name;
    bool attached = option[0] == '-' && option[1] != '-' && strchr("DUI", option[1]) && option[1];
    return attached ? 1 : strcspn(name, "=");
}

/* Returns whether an option affects only the outputs: an option of OpenCL, a warning, or a
 * definition of a symbol for the assembler. */
static bool is_harmless(const char *name)
{
    static const char symbol[] = "Wa,-defsym,";
    if (strncmp(name, symbol, sizeof(symbol) - 1) == 0)
        return !strchr(name + sizeof(symbol) - 1, ',');
    bool passes_on = name[0] == 'W' && name[1] && name[2] == ',';
    return strncmp(name, "cl-", 3) == 0 || (name[0] == 'W' && !passes_on);
}

static bool is_nvrtc(const struct rtc_program *p) { return p->library->kind == RTC_NVRTC; }

static bool has_option(const struct rtc_program *p, const char *const *wanted)
{
    for (size_t i = 0; i < p->option_count; i++) {
        const char *name;
        size_t size = option_name(p->options[i], &name);
        if (p->options[i][0] == '-' && is_listed(wanted, name, size))
            return true;
    }
    return false;
}

bool key_knows_value(const char *option, const char *value)
{
    const char *name, *given;
    size_t size = option_name(option, &name), given_size = option_name(value, &given);
    bool is_llvm = size == 5 && memcmp(name, "mllvm", 5) == 0;
    return !is_llvm || is_listed(llvm_options, given, given_size);
}

bool key_knows_option(enum rtc_kind kind, const char *option)
{
    const char *name;
    size_t size = option_name(option, &name);
    if (option[0] != '-')
        return false;
    if (kind == RTC_NVRTC)
        return is_listed(nvrtc_options, name, size);
    return (is_listed(clang_options, name, size) || is_harmless(name)) &&
           (name[size] != '=' || key_knows_value(option, name + size + 1));
}

bool key_takes_value(enum rtc_kind kind, const char *option)
{
    const char *name;
    size_t size = option_name(option, &name);
    return !name[size] && is_listed(kind == RTC_NVRTC ? nvrtc_values : clang_values, name, size);
}

unsigned key_kept_options(enum rtc_kind kind, int count, const char *const *options)
{
    static const char *const restricting[] = { "restrict", NULL };
    static const char *const remarking[] = { "optimization-info", "opt-info", NULL };
    unsigned kept = 0;
    for (int i = 0; kind == RTC_NVRTC && i < count; i++) {
        const char *name;
        size_t size = option_name(options[i], &name);
        kept |= is_listed(restricting, name, size) ? 1u : 0u;
        kept |= is_listed(remarking, name, size) ? 2u : 0u;
    }
    return kept;
}

static bool are_options_known(const struct rtc_program *p)
{
    const enum rtc_kind kind = p->library->kind;
    const char *taker = NULL;
    for (size_t i = 0; i < p->option_count; i++) {
        const char *option = p->options[i];
        if (taker ? !key_knows_value(taker, option) : !key_knows_option(kind, option))
            return false;
        taker = !taker && key_takes_value(kind, option) ? option : NULL;
    }
    return true;
}

/* ---- sources ---- */

/* Searches the source, headers given in memory, and options, because options may define macros. */
static bool source_has(const struct rtc_program *p, const char *text)
{
    if (strstr(p->source, text))
        return true;
    for (size_t i = 0; i < p->option_count; i++)
        if (strstr(p->options[i], text))
            return true;
    for (size_t i = 0; i < p->header_count; i++)
        if (strstr(p->headers[i].text, text))
            return true;
    return false;
}

static bool source_has_time(const struct rtc_program *p)
{
    bool has_time = words_have_time(bytes_of_text(p->source));
    for (size_t i = 0; i < p->option_count; i++)
        has_time |= words_have_time(bytes_of_text(p->options[i]));
    for (size_t i = 0; i < p->header_count; i++)
        has_time |= words_have_time(bytes_of_text(p->headers[i].text));
    return has_time;
}

bool key_needs_device(const struct rtc_program *p)
{
    static const char *const architecture[] = { "offload-arch", "gpu-architecture", NULL };
    return p->library->kind == RTC_HIPRTC && !has_option(p, architecture);
}

static void put_text(struct sha256 *s, const char *text)
{
    sha256_put_sized(s, bytes_of_text(text ? text : ""));
}

bool key_environment_has_changed(void)
{
    static struct digest first;
    static bool is_known, has_changed;
    const struct digest now = variables_digest(READER_CLANG);
    rtc_lock(RTC_LOCK_ENVIRONMENT);
    if (!is_known)
        first = now;
    is_known = true;
    has_changed |= !digest_equal(&first, &now);
    bool result = has_changed;
    rtc_unlock(RTC_LOCK_ENVIRONMENT);
    return result;
}

const char *key_obstacle(const struct rtc_program *p)
{
    bool has_environment_changed = !is_nvrtc(p) && key_environment_has_changed();
    if (p->library->trouble)
        return p->library->trouble;
    if (p->is_incomplete)
        return "out of memory";
    if (p->has_callback)
        return "a function of the program may end the compile";
    if (!are_options_known(p))
        return "an option is unknown or has side effects";
    if (variables_add_options(variables_reader(p->library->kind)))
        return "an environment variable adds options";
    if (has_environment_changed)
        return "the process has changed an environment variable that the compiler reads";
    if (key_needs_device(p) && !p->architecture[0])
        return "no architecture is given, and the current device's is not known";
    if (source_has_time(p))
        return "the source contains the time of its compile, or may contain it";
    return NULL;
}

/* ---- the key ---- */

static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

struct digest key_of_program(const struct rtc_program *p, enum key_name_part part)
{
    char directory[PATH_MAX] = "";
    const struct digest variables = variables_digest(variables_reader(p->library->kind));
    struct sha256 s;
    sha256_init(&s);
    put_text(&s, "kiln-rtc-10");
    sha256_put(&s, bytes_of(p->library->identity.bytes, DIGEST_SIZE));
    sha256_put(&s, bytes_of(variables.bytes, DIGEST_SIZE));
    sha256_put(&s, bytes_of(&p->option_count, sizeof(p->option_count)));
    for (size_t i = 0; i < p->option_count; i++)
        put_text(&s, p->options[i]);
    put_text(&s, p->architecture);
    sha256_put(&s, bytes_of(p->source_digest.bytes, DIGEST_SIZE));
    sha256_put(&s, bytes_of(&p->header_count, sizeof(p->header_count)));
    for (size_t i = 0; i < p->header_count; i++) {
        put_text(&s, p->headers[i].name);
        put_text(&s, p->headers[i].text);
    }
    sha256_put_sized(&s, buffer_view(&p->expressions));
    sha256_put_sized(&s, buffer_view(&p->action));
    if (part == KEY_LAST_PART) {
        put_text(&s, "last part");
        put_text(&s, last_part(key_name(p)));
    } else if (part == KEY_WHOLE_NAME) {
        put_text(&s, "name");
        put_text(&s, p->name);
        put_text(&s, getcwd(directory, sizeof(directory)));
        put_text(&s, getenv("PWD")); /* LLVM takes the current directory's path from PWD */
    }
    return sha256_end(&s);
}

/* ---- the program's name ---- */

static bool contains(struct bytes where, const char *text)
{
    return where.size && memmem(where.data, where.size, text, strlen(text));
}

/* Returns whether an option makes the compiler write the program's name in a form that a search in
 * the result would not find. */
static bool has_name_options(const struct rtc_program *p)
{
    static const char *const options[] = { "G",
                                           "g",
                                           "device-debug",
                                           "generate-line-info",
                                           "lineinfo",
                                           "dlto",
                                           "dlink-time-opt",
                                           "gen-opt-lto",
                                           "optix-ir",
                                           "rdc",
                                           "dc",
                                           "dw",
                                           "device-c",
                                           "device-w",
                                           "relocatable-device-code",
                                           "fgpu-rdc",
                                           NULL };
    return has_option(p, options);
}

/* Writes the last part of a path in the form that it has in names of static variables, such as
 * "a1b2_cubin_cu". */
static void mangled_stem(const char *name, char ret_stem[64])
{
    size_t size = 0;
    for (const char *at = last_part(name); *at && size < 63; at++)
        ret_stem[size++] = (char)(isalnum((unsigned char)*at) ? *at : '_');
    ret_stem[size] = '\0';
}

/* Writes the last part of a path in the form that it has in PTX: "107, 46, 99" for "k.c". */
static void decimal_stem(const char *name, char ret_text[400])
{
    size_t size = 0;
    ret_text[0] = '\0';
    for (const char *at = last_part(name); *at && size < 390; at++)
        size += (size_t)snprintf(ret_text + size, 400 - size, "%s%u", size ? ", " : "",
                                 (unsigned)(unsigned char)*at);
}

const char *key_name(const struct rtc_program *p)
{
    return p->name && *p->name ? p->name : "default_program";
}

bool key_options_have_directory(const struct rtc_program *p)
{
    char directory[PATH_MAX];
    const char *name = key_name(p);
    snprintf(directory, sizeof(directory), "%.*s", (int)(last_part(name) - name), name);
    size_t size = strlen(directory);
    if (size > 1)
        directory[size - 1] = '\0';
    for (size_t i = 0; size && i < p->option_count; i++)
        if (strstr(p->options[i], directory))
            return true;
    return false;
}

/* Returns NULL for a name without a directory, because such a name may be part of another word in
 * the log.  Returns NULL for a name that the source contains, and for hiprtc, which writes the name
 * in other forms. */
const char *key_name_in_log(const struct rtc_program *p)
{
    const char *name = key_name(p);
    return is_nvrtc(p) && strchr(name, '/') && !source_has(p, name) ? name : NULL;
}

static struct names_text *read_texts(const struct rtc_program *p)
{
    BUFFER_AUTO struct buffer all;
    buffer_init(&all, SIZE_MAX);
    buffer_put(&all, p->source, strlen(p->source));
    for (size_t i = 0; i < p->option_count; i++) {
        buffer_put_u8(&all, '\n');
        buffer_put(&all, p->options[i], strlen(p->options[i]));
    }
    for (size_t i = 0; i < p->header_count; i++) {
        buffer_put_u8(&all, '\n');
        buffer_put(&all, p->headers[i].text, strlen(p->headers[i].text));
    }
    return all.failed ? NULL : names_read(buffer_view(&all));
}

bool key_expands_name(const struct rtc_program *p, struct bytes headers)
{
    if (p->library->kind == RTC_COMGR) /* its key always contains the names of the inputs */
        return false;
    struct names_text *texts = read_texts(p);
    bool expands = !texts || source_has(p, "source_location") || source_has(p, "#include_next") ||
                   names_are_expanded(texts, (const struct names_text *const *)headers.data,
                                      headers.size / sizeof(struct names_text *));
    names_free(texts);
    return expands;
}

static bool has_directory(struct bytes result)
{
    char directory[PATH_MAX];
    const char *environment = getenv("PWD");
    return !getcwd(directory, sizeof(directory)) ||
           (strlen(directory) > 1 && contains(result, directory)) ||
           (environment && strlen(environment) > 1 && contains(result, environment));
}

enum key_name_part key_name_part_of(const struct rtc_program *p, struct bytes result)
{
    char stem[64], decimal[400];
    const char *name = key_name(p);
    mangled_stem(name, stem);
    decimal_stem(name, decimal);
    if (!is_nvrtc(p) && has_directory(result))
        return KEY_WHOLE_NAME;
    if (p->library->kind == RTC_COMGR)
        return has_name_options(p) ? KEY_WHOLE_NAME : KEY_NO_NAME;
    if (has_name_options(p) || p->expands_name || contains(result, name) ||
        contains(result, decimal))
        return KEY_WHOLE_NAME;
    return contains(result, "_GLOBAL__N_") || contains(result, "_INTERNAL_") ||
                   contains(result, stem) || contains(result, last_part(name))
               ? KEY_LAST_PART
               : KEY_NO_NAME;
}

const char *key_target(const struct rtc_program *p)
{
    static const char *const names[] = { "gpu-architecture", "arch", "offload-arch", NULL };
    for (size_t i = 0; i < p->option_count; i++) {
        const char *name;
        size_t size = option_name(p->options[i], &name);
        if (p->options[i][0] == '-' && is_listed(names, name, size) && name[size] == '=')
            return name + size + 1;
    }
    return p->architecture;
}
