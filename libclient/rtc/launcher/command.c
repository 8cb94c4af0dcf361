/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/launcher/command.h"

#include "libclient/rtc/key.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Options of clang, besides those of hiprtc and comgr (key.c). */
static const char clang_options[] =
    "-c -S -emit-llvm -x -target --target -mcpu --cuda-device-only --offload-device-only "
    "--cuda-gpu-arch --gpu-bundle-output --no-gpu-bundle-output -nostdlib -fPIC -fvisibility "
    "-fno-exceptions -fno-rtti";

/* The next argument is the value of these options. */
static const char clang_values[] = "-x -target";

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

static bool take_input(struct command *c, size_t at)
{
    if (c->input || c->arguments[at][0] == '@') /* a file @FILE has further options */
        return false;
    c->input = at;
    return true;
}

/* Takes the argument |at|, and its value if it has one.  Returns the number of arguments taken, or
 * 0 if kilnd cannot answer the compile. */
static size_t take(struct command *c, size_t at)
{
    const char *option = c->arguments[at], *value = c->arguments[at + 1];
    if (option[0] != '-')
        return take_input(c, at);
    if (is_output(c, option)) {
        if (c->output || !value)
            return 0;
        c->output = at + 1;
        return 2;
    }
    if (!is_known(c, option))
        return 0;
    if (!takes_value(c, option))
        return 1;
    return value && key_knows_value(option, value) ? 2 : 0;
}

static bool take_all(struct command *c)
{
    for (size_t at = 1; at < c->count;) {
        size_t taken = take(c, at);
        if (!taken)
            return false;
        at += taken;
    }
    return c->input && c->output;
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

static const char *language_of(const struct command *c)
{
    const char *given = value_of(c, "-x"), *dot = strrchr(c->arguments[c->input], '.');
    return given ? given : dot ? dot + 1 : "";
}

/* Returns whether the output may contain a digest of the paths.  For HIP and CUDA, clang puts such
 * a digest into symbol names. */
static bool has_place(const struct command *c)
{
    return !c->is_ptxas && is_listed("hip cuda cu", language_of(c));
}

static bool is_for_gpu(const struct command *c)
{
    const char *target = value_of(c, "-target --target");
    return c->is_ptxas || is_listed("hip cuda cu cl", language_of(c)) ||
           (target && (strncmp(target, "amdgcn", 6) == 0 || strncmp(target, "nvptx", 5) == 0));
}

/* Returns whether another file may replace |output|.  A device, for example, must not be
 * replaced. */
static bool is_plain(const char *output)
{
    struct stat seen;
    return strcmp(output, "-") != 0 && (lstat(output, &seen) != 0 || S_ISREG(seen.st_mode));
}

bool command_read(struct command *c)
{
    const char *slash = strrchr(c->compiler, '/'), *name = slash ? slash + 1 : c->compiler;
    c->count = 0;
    while (c->arguments[c->count])
        c->count++;
    c->is_ptxas = strcmp(name, "ptxas") == 0;
    c->input = c->output = 0;
    if (!c->is_ptxas && strncmp(name, "clang", 5) != 0 && strncmp(name, "amdclang", 8) != 0)
        return false;
    if (!take_all(c) || !is_for_gpu(c) || !is_plain(c->arguments[c->output]))
        return false;
    const char *target = value_of(c, architectures);
    snprintf(c->target, sizeof(c->target), "%s", target ? target : "");
    c->has_place = has_place(c);
    return true;
}
