/* SPDX-License-Identifier: MIT */
#include "common/protocol/program_inputs.h"

#include "common/base/pasted_words.h"
#include "common/protocol/messages.h"

#include <ctype.h>
#include <string.h>

/* Limits for a search of the texts, because kilnd searches on the thread that serves all users. */
#define TEXTS_MAX (1u << 20)
#define COMPARISONS_MAX (1u << 20)

/* Options that name no file and do not depend on the current directory.  If such an option makes
 * the compiler write the program's name into an output, it does so in a form that a later search of
 * the output finds (key_name_part_of in libclient/rtc/key.c).  Each option is listed without its
 * leading dashes and without its value. */
static const char *const nvrtc_options[] = {
    "gpu-architecture",
    "arch",
    "maxrregcount",
    "ftz",
    "prec-sqrt",
    "prec-div",
    "fmad",
    "use_fast_math",
    "extra-device-vectorization",
    "modify-stack-limit",
    "D",
    "define-macro",
    "U",
    "undefine-macro",
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
    "display-error-number",
    "no-display-error-number",
    "diag-error",
    "diag-suppress",
    "diag-warn",
    "brief-diagnostics",
    "minimal",
    NULL,
};

static const char *const hiprtc_options[] = {
    "offload-arch",
    "gpu-architecture",
    "std",
    "D",
    "U",
    "O0",
    "O1",
    "O2",
    "O3",
    "Os",
    "w",
    "ffast-math",
    "fno-fast-math",
    "ffp-contract",
    "fno-offload-uniform-block",
    "fgpu-flush-denormals-to-zero",
    "fno-gpu-flush-denormals-to-zero",
    "munsafe-fp-atomics",
    "mcumode",
    "mno-cumode",
    "mwavefrontsize64",
    "mno-wavefrontsize64",
    "mcode-object-version",
    "nogpuinc",
    "nogpulib",
    NULL,
};

/* Words that make a source depend on more than its inputs.  hiprtc compiles a file in a temporary
 * directory, and the first four words bring the path of that directory into the source.  The next
 * two make clang or its assembler read files.  The last two put words together. */
static const char *const hiprtc_words[] = {
    "__FILE",
    "__BASE_FILE__",
    "__builtin_FILE",
    "source_location",
    "asm",
    "dependency",
    "##",
    "%:%:",
    NULL,
};

static bool next_option(struct bytes *rest, struct bytes *ret_option)
{
    const uint8_t *blank = rest->size ? memchr(rest->data, ' ', rest->size) : NULL;
    size_t size = blank ? (size_t)(blank - rest->data) : rest->size;
    *ret_option = bytes_of(rest->data, size);
    bool is_there = rest->size > 0;
    size_t used = blank ? size + 1 : size;
    *rest = bytes_of(rest->data + used, rest->size - used);
    return is_there;
}

static struct bytes option_name(struct bytes option)
{
    size_t at = 0, end;
    while (at < option.size && option.data[at] == '-')
        at++;
    for (end = at; end < option.size && option.data[end] != '='; end++)
        ;
    bool is_macro = at == 1 && end > at && (option.data[at] == 'D' || option.data[at] == 'U');
    return bytes_of(option.data + at, is_macro ? 1 : end - at);
}

static bool is_listed(const char *const *list, struct bytes name)
{
    for (; *list; list++)
        if (bytes_equal_text(name, *list))
            return true;
    return false;
}

/* Returns whether |name| is an option for warnings, such as -Wall.  An option with a comma, such as
 * -Wa,TEXT, is not: clang passes TEXT on to its assembler, preprocessor or linker. */
static bool is_warning(struct bytes name)
{
    return name.size > 1 && name.data[0] == 'W' && !memchr(name.data, ',', name.size);
}

static bool is_option_allowed(struct bytes option, bool is_hip)
{
    struct bytes name = option_name(option);
    for (size_t i = 0; i < option.size; i++)
        if (option.data[i] <= ' ' || option.data[i] > '~')
            return false;
    bool is_known = is_hip ? is_listed(hiprtc_options, name) || is_warning(name)
                           : is_listed(nvrtc_options, name);
    return is_known && option.data[0] == '-';
}

struct bytes program_inputs_target(const struct program_inputs *inputs)
{
    static const char *const names[] = { "offload-arch", "gpu-architecture", "arch", NULL };
    struct bytes rest = inputs->options, option;
    while (next_option(&rest, &option)) {
        const uint8_t *value = memchr(option.data, '=', option.size);
        if (value && is_listed(names, option_name(option)))
            return bytes_of(value + 1, (size_t)(option.data + option.size - value - 1));
    }
    return bytes_of(NULL, 0);
}

static bool targets_amd(const struct program_inputs *inputs)
{
    struct bytes target = program_inputs_target(inputs);
    return target.size >= 3 && memcmp(target.data, "gfx", 3) == 0;
}

static bool are_options_allowed(const struct program_inputs *inputs)
{
    struct bytes rest = inputs->options, option;
    bool is_hip = targets_amd(inputs);
    while (next_option(&rest, &option))
        if (!is_option_allowed(option, is_hip))
            return false;
    return true;
}

static bool has_word(struct bytes text, const char *word)
{
    return text.size && memmem(text.data, text.size, word, strlen(word));
}

static bool has_any_word(struct bytes text, const char *const *words)
{
    for (; *words; words++)
        if (has_word(text, *words))
            return true;
    return false;
}

static bool is_identifier_part(int c) { return isalnum(c) || c == '_'; }

/* Returns whether the word at |at| may be a directive's name.  Apart from blanks and spliced lines,
 * such a word follows a '#', the ':' of the digraph "%:", or the '/' at the end of a comment.  A
 * word after a comma counts, too, because a macro may append it to "__has_". */
static bool may_be_directive(struct bytes text, size_t at)
{
    while (at > 0 && strchr(" \t\v\f\r\n\\", text.data[at - 1]))
        at--;
    return at > 0 && strchr("#:/,", text.data[at - 1]);
}

static bool is_header(const struct program_inputs *inputs, struct bytes name)
{
    struct reader r = reader_of(inputs->headers);
    for (uint32_t i = 0; i < inputs->header_count && !r.failed; i++)
        if (bytes_equal(message_header_read(&r).name, name))
            return !r.failed;
    return false;
}

static bool names_header(const struct program_inputs *inputs, struct bytes rest)
{
    size_t at = 0;
    while (at < rest.size && (rest.data[at] == ' ' || rest.data[at] == '\t'))
        at++;
    if (at == rest.size || (rest.data[at] != '<' && rest.data[at] != '"'))
        return false;
    const char closing = rest.data[at] == '<' ? '>' : '"';
    const uint8_t *name = rest.data + at + 1;
    const uint8_t *end = memchr(name, closing, rest.size - at - 1);
    return end && is_header(inputs, bytes_of(name, (size_t)(end - name)));
}

static bool ends_word(struct bytes rest)
{
    return !rest.size || !is_identifier_part(rest.data[0]) ||
           (rest.size >= 5 && memcmp(rest.data, "_next", 5) == 0);
}

static bool has_directive(const struct program_inputs *inputs, struct bytes text, const char *word)
{
    const size_t size = strlen(word);
    struct bytes rest = text;
    const uint8_t *found;
    while (rest.size && (found = memmem(rest.data, rest.size, word, size))) {
        const size_t at = (size_t)(found - text.data);
        rest = bytes_of(found + size, text.size - at - size);
        if (ends_word(rest) && may_be_directive(text, at) &&
            !(strcmp(word, "include") == 0 && names_header(inputs, rest)))
            return true;
    }
    return false;
}

/* Returns whether "##" or one of its digraphs may contain |c|. */
static bool is_paste_part(uint8_t c) { return c == '#' || c == '%' || c == ':'; }

/* Returns whether a line that ends between |before| and |after| may split an identifier, or "##".
 */
static bool may_split(uint8_t before, uint8_t after)
{
    return (is_identifier_part(before) && is_identifier_part(after)) ||
           (is_paste_part(before) && is_paste_part(after));
}

/* Returns whether a spliced line end splits an identifier or "##", which would then be hidden from
 * the searches. */
static bool splits_token(struct bytes text)
{
    const uint8_t *end = text.data + text.size, *at = text.data;
    while (at < end && (at = memchr(at, '\\', (size_t)(end - at)))) {
        const uint8_t *next = at + 1;
        while (next < end && (*next == ' ' || *next == '\t' || *next == '\r'))
            next++;
        if (next + 1 < end && *next == '\n' && at > text.data && may_split(at[-1], next[1]))
            return true;
        at++;
    }
    return false;
}

static const char *text_obstacle(const struct program_inputs *inputs, struct bytes text)
{
    static const char *const times[] = { "__DATE__", "__TIME__", "__TIMESTAMP__", NULL };
    static const char *const tests[] = { "__has_include", "__has_embed", NULL };
    if (has_any_word(text, times))
        return "the source contains the time of its compile";
    if (targets_amd(inputs) && has_any_word(text, hiprtc_words))
        return "the source may contain a path, or read files";
    if (has_word(text, "??") || splits_token(text))
        return "the source has trigraphs, or identifiers or ## on two lines";
    if (pasted_words_possible(text, times) || pasted_words_possible(text, tests))
        return "the source may put the name of a macro together";
    if (has_word(text, "_has_include") || has_word(text, "_has_embed") ||
        has_directive(inputs, text, "include") || has_directive(inputs, text, "import") ||
        has_directive(inputs, text, "embed"))
        return "the source may read files";
    return NULL;
}

static const char *headers_obstacle(const struct program_inputs *inputs)
{
    struct reader r = reader_of(inputs->headers);
    for (uint32_t i = 0; i < inputs->header_count; i++) {
        struct message_header header = message_header_read(&r);
        const char *obstacle =
            r.failed ? "a header is damaged" : text_obstacle(inputs, header.text);
        if (obstacle)
            return obstacle;
    }
    return reader_left(&r) ? "a header is damaged" : NULL;
}

static uint64_t count_includes(struct bytes text)
{
    static const char word[] = "include";
    uint64_t count = 0;
    const uint8_t *end = text.data + text.size, *at = text.data;
    while (at < end && (at = memmem(at, (size_t)(end - at), word, sizeof(word) - 1))) {
        at += sizeof(word) - 1;
        count++;
    }
    return count;
}

static const char *size_obstacle(const struct program_inputs *inputs)
{
    if (inputs->source.size > TEXTS_MAX || inputs->headers.size > TEXTS_MAX - inputs->source.size ||
        inputs->expressions.size > TEXTS_MAX)
        return "the source and its headers are larger than 1 MiB";
    uint64_t includes = count_includes(inputs->source) + count_includes(inputs->headers);
    return includes * inputs->header_count > COMPARISONS_MAX ? "too many headers are included"
                                                             : NULL;
}

const char *program_inputs_obstacle(const struct program_inputs *inputs)
{
    const char *obstacle = size_obstacle(inputs);
    if (obstacle)
        return obstacle;
    if (!are_options_allowed(inputs))
        return "an option may read a file, or depend on a path";
    obstacle = text_obstacle(inputs, inputs->options);
    if (!obstacle)
        obstacle = text_obstacle(inputs, inputs->source);
    return obstacle ? obstacle : headers_obstacle(inputs);
}
