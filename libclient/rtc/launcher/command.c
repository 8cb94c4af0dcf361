/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/launcher/command.h"

#include "libclient/rtc/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Options of clang, besides those of hiprtc and comgr (key.c). */
static const char clang_options[] =
    "-c -S -emit-llvm -x -target --target -mcpu --cuda-device-only --offload-device-only "
    "--cuda-gpu-arch --hip-link --gpu-bundle-output --no-gpu-bundle-output -nostdlib -fPIC "
    "-fvisibility "
    "-fno-exceptions -fno-rtti -MD -MMD -MP -MF -MT -MQ -fcolor-diagnostics "
    "-fno-color-diagnostics -fdiagnostics-color -fno-diagnostics-color -Qunused-arguments -pipe";

/* The next argument is the value of these options. */
static const char clang_values[] = "-x -target -MF -MT -MQ";

/* The options of ptxas, except options whose value is a list or a file, and except -g, because the
 * output would then contain the command line. */
static const char ptxas_options[] =
    "-c --compile-only -lineinfo --generate-line-info -suppress-debug-info "
    "--suppress-debug-info -v --verbose -w --disable-warnings -Werror --warning-as-error "
    "-warn-spills --warn-on-spills -warn-lmem-usage --warn-on-local-memory-usage "
    "-warn-double-usage --warn-on-double-precision-use -ewp --extensible-whole-program "
    "-preserve-relocs --preserve-relocs -disable-optimizer-consts --disable-optimizer-constants";

/* The value of these options of ptxas is after "=", or is the next argument. */
static const char ptxas_values[] =
    "-arch --gpu-name -O --opt-level -m --machine -maxrregcount --maxrregcount -fmad --fmad "
    "-dlcm --def-load-cache -dscm --def-store-cache -regUsageLevel --register-usage-level "
    "-allow-expensive-optimizations --allow-expensive-optimizations -Ofc --Ofast-compile "
    "-split-compile --split-compile -pic --position-independent-code";

static const char architectures[] = "--offload-arch --cuda-gpu-arch -mcpu -arch --gpu-name";

/* Returns whether |word|, up to a "=", is one of the words in |list|, which are separated by
 * blanks. */
static bool is_listed(const char *list, const char *word)
{
    size_t size = strcspn(word, "=");
    while (*list) {
        size_t length = strcspn(list, " ");
        if (length == size && memcmp(list, word, size) == 0)
            return true;
        list += length + (list[length] == ' ');
    }
    return false;
}

static bool is_level(const char *option)
{
    return strlen(option) == 3 && strncmp(option, "-O", 2) == 0 && strchr("0123", option[2]);
}

static bool is_known(const struct command *c, const char *option)
{
    if (c->is_ptxas)
        return is_listed(ptxas_options, option) || is_listed(ptxas_values, option) ||
               is_level(option);
    return is_listed(clang_options, option) || key_knows_option(RTC_COMGR, option);
}

static bool takes_value(const struct command *c, const char *option)
{
    if (strchr(option, '='))
        return false;
    if (c->is_ptxas)
        return is_listed(ptxas_values, option);
    return is_listed(clang_values, option) || key_takes_value(RTC_COMGR, option);
}

static bool is_output(const struct command *c, const char *option)
{
    return strcmp(option, "-o") == 0 || (c->is_ptxas && strcmp(option, "--output-file") == 0);
}

static bool take_path(size_t *index, size_t at)
{
    bool is_first = *index == 0;
    *index = at;
    return is_first;
}

/* Takes the argument |at|, and its value if it has one.  Returns the number of arguments taken, or
 * 0 if kilnd cannot answer the compile. */
static size_t take(struct command *c, size_t at)
{
    const char *option = c->arguments[at], *value = c->arguments[at + 1];
    if (option[0] != '-')
        return take_path(&c->input, at);
    if (is_output(c, option))
        return value && take_path(&c->output, at + 1) ? 2 : 0;
    if (!is_known(c, option))
        return 0;
    if (!takes_value(c, option))
        return 1;
    if (c->input && strcmp(option, "-x") == 0) /* it does not apply to the input */
        return 0;
    return value && key_knows_value(option, value) ? 2 : 0;
}

/* Returns NULL, or why kilnd cannot answer the compile. */
static const char *take_all(struct command *c)
{
    for (size_t at = 1; at < c->count; at++)
        if (c->arguments[at][0] == '@')
            return "a file has further options";
    for (size_t at = 1; at < c->count;) {
        size_t taken = take(c, at);
        if (!taken)
            return "an option is unknown or has side effects, or there are more files";
        at += taken;
    }
    return c->input && c->output ? NULL : "the command does not name an input and an output";
}

static const char *value_of(const struct command *c, const char *names)
{
    const char *found = NULL;
    for (size_t i = 1; i < c->count; i++) {
        if (!is_listed(names, c->arguments[i]))
            continue;
        const char *sign = strchr(c->arguments[i], '=');
        found = sign ? sign + 1 : c->arguments[i + 1];
    }
    return found;
}

static bool has_argument(const struct command *c, const char *wanted)
{
    for (size_t i = 1; i < c->count; i++)
        if (strcmp(c->arguments[i], wanted) == 0)
            return true;
    return false;
}

static const char *language_of(const struct command *c)
{
    const char *given = value_of(c, "-x"), *dot = strrchr(c->arguments[c->input], '.');
    return given ? given : dot ? dot + 1 : "";
}

/* Returns whether the output may contain a digest of the paths, unless the user allows outputs with
 * the digest of another directory.  For HIP and CUDA, clang puts such a digest into symbol names.
 */
static bool has_place(const struct command *c)
{
    const char *any = getenv("KILN_CC_ANY_DIRECTORY");
    bool may_differ = any && strcmp(any, "1") == 0;
    return !c->is_ptxas && !may_differ && is_listed("hip cuda cu", language_of(c));
}

static bool is_for_gpu(const struct command *c)
{
    const char *target = value_of(c, "-target --target");
    return c->is_ptxas || is_listed("hip cuda cu cl", language_of(c)) ||
           (target && (strncmp(target, "amdgcn", 6) == 0 || strncmp(target, "nvptx", 5) == 0));
}

/* Returns whether kiln-cc may write the file |path| by renaming another file, with the same effect
 * as if the compiler had written it.  This is not so for a device or a link, for example. */
static bool is_replaceable(const char *path)
{
    struct stat seen;
    const mode_t mask = umask(0);
    umask(mask);
    if (lstat(path, &seen))
        return true;
    const mode_t mode = seen.st_mode & 07777;
    return S_ISREG(seen.st_mode) && seen.st_nlink == 1 && seen.st_uid == geteuid() &&
           access(path, W_OK) == 0 && (mode == (0666 & ~mask) || mode == (0777 & ~mask));
}

/* Finds the path of the dependency file.  Without -MF, clang makes it from the output's path.  If
 * this path is wrong, nothing is stored, because clang then does not write the file. */
static bool find_dependencies(struct command *c)
{
    const char *given = value_of(c, "-MF"), *output = c->arguments[c->output];
    const char *slash = strrchr(output, '/'), *dot = strrchr(slash ? slash : output, '.');
    size_t stem = dot ? (size_t)(dot - output) : strlen(output);
    int size = 0;
    c->dependencies[0] = '\0';
    if (!has_argument(c, "-MD") && !has_argument(c, "-MMD"))
        return true;
    if (given)
        size = snprintf(c->dependencies, PATH_MAX, "%s", given);
    else
        size = snprintf(c->dependencies, PATH_MAX, "%.*s.d", (int)stem, output);
    return size < PATH_MAX && strcmp(given ? given : "", "-") != 0;
}

/* Returns whether |name| is the name of a compiler, such as amdclang++ or clang-19, and not of
 * another program of LLVM, such as clang-cpp. */
static bool is_clang(const char *name)
{
    name += strncmp(name, "amd", 3) == 0 ? 3 : 0;
    if (strncmp(name, "clang", 5) != 0)
        return false;
    name += 5;
    name += strncmp(name, "++", 2) == 0 ? 2 : 0;
    return !*name || (*name == '-' && strspn(name + 1, "0123456789.") == strlen(name + 1));
}

/* Returns whether the architecture is that of the GPU of this host, as for --offload-arch=native.
 */
static bool is_native(const struct command *c)
{
    for (size_t i = 1; i < c->count; i++)
        if (is_listed(architectures, c->arguments[i]) && strstr(c->arguments[i], "native"))
            return true;
    return strstr(c->target, "native");
}

const char *command_read(struct command *c)
{
    const char *slash = strrchr(c->compiler, '/'), *name = slash ? slash + 1 : c->compiler;
    c->count = 0;
    while (c->arguments[c->count])
        c->count++;
    c->is_ptxas |= strncmp(name, "ptxas", 5) == 0;
    c->input = c->output = 0;
    if (!c->is_ptxas && !is_clang(name))
        return "kiln-cc does not know the compiler";
    const char *reason = take_all(c);
    if (reason)
        return reason;
    if (!is_for_gpu(c))
        return "it is not a compile for a GPU";
    if (!find_dependencies(c) || !is_replaceable(c->arguments[c->output]) ||
        (c->dependencies[0] && !is_replaceable(c->dependencies)))
        return "the output is not a plain file, or has other permissions than a new file";
    const char *target = value_of(c, architectures);
    snprintf(c->target, sizeof(c->target), "%s", target ? target : "");
    c->has_place = has_place(c);
    return is_native(c) ? "the output depends on the GPUs of the host" : NULL;
}
