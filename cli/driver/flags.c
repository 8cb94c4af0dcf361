/* SPDX-License-Identifier: MIT */
#include "cli/driver/flags.h"

#include "cli/units.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char c) { return isspace((unsigned char)c) != 0; }

static int split_in_place(struct flag_words *words, struct kiln_error *err)
{
    for (char *at = words->text; *at;) {
        while (is_blank(*at))
            at++;
        if (!*at)
            break;
        if (words->count == FLAG_WORDS_MOST)
            return cli_fail(err, KILN_E_INVALID, "more than %d words in a command line",
                            FLAG_WORDS_MOST);
        char quote = *at == '"' || *at == '\'' ? *at++ : '\0';
        words->words[words->count++] = at;
        while (*at && (quote ? *at != quote : !is_blank(*at)))
            at++;
        if (*at)
            *at++ = '\0';
    }
    return KILN_E_OK;
}

int flag_words_split(const char *line, struct flag_words *ret_words, struct kiln_error *err)
{
    struct flag_words words = { .text = strdup(line) };
    if (!words.text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for a command line");
    int rc = split_in_place(&words, err);
    if (rc) {
        flag_words_done(&words);
        return rc;
    }
    *ret_words = words;
    return KILN_E_OK;
}

void flag_words_done(struct flag_words *words)
{
    free(words->text);
    *words = (struct flag_words){ 0 };
}

int flag_words_join(const char *const *words, size_t count, char **ret_line, struct kiln_error *err)
{
    size_t size = 1;
    for (size_t i = 0; i < count; i++)
        size += strlen(words[i]) + 3;
    char *line = malloc(size);
    if (!line)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for a command line");
    size_t used = 0;
    line[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        bool plain = *words[i] && !strpbrk(words[i], " \t\r\n\v\f\"'");
        const char *quote = plain ? "" : strchr(words[i], '"') ? "'" : "\"";
        used += (size_t)snprintf(line + used, size - used, "%s%s%s%s", i ? " " : "", quote,
                                 words[i], quote);
    }
    *ret_line = line;
    return KILN_E_OK;
}

/* Every flag as it is typed, what it means, and where a number of ours goes. */
enum meaning { VERIFY, TIME, ITERATIONS, WALL, SEARCH, SOLVER };

static const struct run_flag {
    char letter;
    const char *name;
    enum meaning meaning;
    uint64_t most;
} run_flag_table[] = {
    { 'V', "verify", VERIFY, 1 },         { 't', "time", TIME, 1 },
    { 'i', "iter", ITERATIONS, 1000000 }, { 'w', "wall", WALL, 2 },
    { 's', "search", SEARCH, 1 },         { 'S', "solution", SOLVER, 0 },
};

static const struct run_flag *find(const char *word)
{
    bool is_long = word[0] == '-' && word[1] == '-';
    size_t size = is_long ? strcspn(word + 2, "=") : 1;
    for (size_t i = 0; i < sizeof(run_flag_table) / sizeof(run_flag_table[0]); i++) {
        const struct run_flag *f = &run_flag_table[i];
        if (is_long ? strlen(f->name) == size && strncmp(f->name, word + 2, size) == 0
                    : f->letter == word[1])
            return f;
    }
    return NULL;
}

/* The value inside the word: "--iter=5", "-i5". */
static const char *attached(const char *word)
{
    if (word[1] != '-')
        return word[1] && word[2] ? word + 2 + (word[2] == '=') : NULL;
    const char *equals = strchr(word, '=');
    return equals ? equals + 1 : NULL;
}

/* MIOpen numbers its solvers; -1 and 0 leave the choice to it. */
static int set_solver(const char *value, struct run_flags *flags, struct kiln_error *err)
{
    if (strcmp(value, "-1") == 0 || strcmp(value, "0") == 0)
        return KILN_E_OK;
    if (strspn(value, "-0123456789") == strlen(value))
        return cli_fail(err, KILN_E_INVALID,
                        "-S %.20s: kiln has names for solvers, no numbers, such as "
                        "-S ConvDirectNaive; -S -1 takes the best",
                        value);
    if (strlen(value) >= sizeof(flags->solver))
        return cli_fail(err, KILN_E_INVALID, "-S %.20s...: no solver has a name of %zu letters",
                        value, strlen(value));
    snprintf(flags->solver, sizeof(flags->solver), "%s", value);
    return KILN_E_OK;
}

static int set(const struct run_flag *flag, const char *value, struct run_flags *flags,
               struct kiln_error *err)
{
    uint64_t number = 0;
    if (flag->meaning == SOLVER)
        return set_solver(value, flags, err);
    if (!units_parse_number(value, flag->most, &number))
        return cli_fail(err, KILN_E_INVALID, "value '%.40s' of -%c is not a number from 0 to %llu",
                        value, flag->letter, (unsigned long long)flag->most);
    if (flag->meaning == SEARCH && number)
        return cli_fail(err, KILN_E_UNSUPPORTED,
                        "-s 1 asks for tuning, which this version of kiln does not do: use -s 0");
    flags->verify = flag->meaning == VERIFY ? number != 0 : flags->verify;
    flags->time = flag->meaning == TIME ? number != 0 : flags->time;
    flags->wall = flag->meaning == WALL ? number != 0 : flags->wall;
    flags->iterations = flag->meaning == ITERATIONS ? (unsigned)number : flags->iterations;
    return KILN_E_OK;
}

int run_flags_parse(const char *const *words, size_t count, struct run_flags *ret_flags,
                    struct kiln_error *err)
{
    struct run_flags flags = { .verify = true, .iterations = 10 };
    for (size_t i = 0; i < count; i++) {
        if (words[i][0] != '-' || !words[i][1])
            continue;
        const struct run_flag *flag = find(words[i]);
        const char *value = attached(words[i]);
        if (!value && i + 1 < count)
            value = words[++i];
        if (flag && !value)
            return cli_fail(err, KILN_E_INVALID, "-%c needs a value", flag->letter);
        int rc = flag ? set(flag, value, &flags, err) : KILN_E_OK;
        if (rc)
            return rc;
    }
    if (flags.iterations == 0)
        flags.iterations = 1;
    *ret_flags = flags;
    return KILN_E_OK;
}

const char *run_flags_help(void)
{
    return "Flags of conv, convfp16 and convbfp16, as MIOpenDriver has them:\n"
           "  -n -c -k -g             batch, input channels, output channels, groups\n"
           "  -H -W, --in_d           input height, width, depth\n"
           "  -y -x, --fil_d          filter height, width, depth\n"
           "  -p -q, --pad_d          padding\n"
           "  -u -v, --conv_stride_d  strides\n"
           "  -l -j, --dilation_d     dilations\n"
           "  --spatial_dim N         2 or 3\n"
           "  --in_layout, --fil_layout, --out_layout L\n"
           "                          NCHW, NHWC, NCDHW or NDHWC\n"
           "  -m MODE                 conv or trans (transposed)\n"
           "  -F MASK                 1 forward, 2 backward data, 4 backward weights; 0 all\n"
           "  -V 0|1                  compare with a reference on the CPU (1)\n"
           "  -t 0|1                  time -i launches (0)\n"
           "  -i N                    launches to time (10)\n"
           "  -w 0|1                  time them from the outside, too (0)\n"
           "  -S NAME                 solver to use; -1: the best that applies\n"
           "  -s 0                    no tuning; this version does not tune\n";
}
