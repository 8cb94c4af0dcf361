/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/launcher/launch.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "libclient/rtc/answer.h"
#include "libclient/rtc/identity.h"
#include "libclient/rtc/launcher/replay.h"
#include "libclient/rtc/notes.h"
#include "libclient/rtc/words.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define INPUT_MAX (64u << 20)
#define MESSAGES_MAX (1u << 20)
#define ACTION_MAX (1u << 20)
#define VARIABLES_MAX 256u
#define RESULT_MAGIC 0x3143434bu /* "KCC1" */

struct launch {
    struct rtc_program program; /* must be the first member */
    const struct command *command;
    const char *library;
    struct buffer messages[2]; /* what the compiler wrote to standard output and standard error */
};

/* The manifest lists the compiler's program and libraries, so kiln-cc needs no other check of the
 * compiler's identity. */
bool identity_holds(const struct rtc_library *library)
{
    (void)library;
    return true;
}

/* kiln-cc has no compiler in its own process. */
bool rtc_is_compiler_code(const void *address)
{
    (void)address;
    return false;
}

/* ---- running the compiler ---- */

static void set_environment(const struct launch *l, int notes)
{
    char text[2 * PATH_MAX];
    struct stat seen;
    const char *before = getenv("LD_PRELOAD");
    snprintf(text, sizeof(text), "%s%s%s", l->library, before && *before ? ":" : "",
             before ? before : "");
    setenv("LD_PRELOAD", text, 1);
    setenv("KILN_RTC", "off", 1);
    if (fstat(notes, &seen))
        _exit(127);
    snprintf(text, sizeof(text), "%d:%llu:%llu", notes, (unsigned long long)seen.st_dev,
             (unsigned long long)seen.st_ino);
    setenv(NOTES_VARIABLE, text, 1);
}

static void execute(const struct launch *l, int notes, const int messages[2])
{
    set_environment(l, notes);
    if (dup2(messages[0], STDOUT_FILENO) >= 0 && dup2(messages[1], STDERR_FILENO) >= 0)
        execv(l->command->compiler, l->command->arguments);
    _exit(127);
}

static int wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void take_content(int file, size_t limit, struct buffer *ret_content)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    buffer_done(ret_content);
    buffer_init(ret_content, limit);
    ret_content->failed |=
        lseek(file, 0, SEEK_SET) != 0 || fs_read_fd(file, limit, ret_content, &ignored) != KILN_OK;
}

static void print(int to, struct bytes text)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    (void)!fs_write_all(to, text, &ignored);
}

static void print_messages(struct bytes out, struct bytes errors)
{
    print(STDOUT_FILENO, out);
    print(STDERR_FILENO, errors);
}

static void take_notes(const struct launch *l, int file)
{
    BUFFER_AUTO struct buffer notes = { 0 };
    const struct replay_paths paths = { l->command->arguments[l->command->input],
                                        l->command->arguments[l->command->output] };
    take_content(file, INPUT_MAX, &notes);
    replay_notes(notes.failed ? bytes_of(NULL, 0) : buffer_view(&notes), &paths);
}

static int run(struct rtc_program *p)
{
    struct launch *l = (struct launch *)p;
    KILN_AUTO(fd) int notes = memfd_create("kiln-cc notes", 0);
    KILN_AUTO(fd) int out = memfd_create("kiln-cc output", MFD_CLOEXEC);
    KILN_AUTO(fd) int errors = memfd_create("kiln-cc errors", MFD_CLOEXEC);
    const int messages[2] = { out, errors };
    bool is_ready = notes >= 0 && out >= 0 && errors >= 0 && fcntl(notes, F_SETFL, O_APPEND) == 0;
    pid_t child = is_ready ? fork() : -1;
    if (child == 0)
        execute(l, notes, messages);
    if (child < 0) {
        execv(l->command->compiler, l->command->arguments);
        return 127;
    }
    int rc = wait_for(child);
    take_notes(l, notes);
    for (unsigned i = 0; i < 2; i++)
        take_content(messages[i], MESSAGES_MAX, &l->messages[i]);
    print_messages(buffer_view(&l->messages[0]), buffer_view(&l->messages[1]));
    return rc;
}

/* ---- results ---- */

static bool is_input_unchanged(const struct launch *l)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct digest now;
    KILN_AUTO(fd) int file = open(l->command->arguments[l->command->input], O_RDONLY | O_CLOEXEC);
    return file >= 0 && sha256_of_file(file, &now, NULL, &ignored) == KILN_OK &&
           digest_equal(&now, &l->program.source_digest);
}

static bool collect(struct rtc_program *p, struct buffer *to)
{
    const struct launch *l = (const struct launch *)p;
    const char *output = l->command->arguments[l->command->output];
    struct kiln_err ignored = KILN_ERR_INIT;
    struct stat seen;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, INPUT_MAX);
    if (l->messages[0].failed || l->messages[1].failed || !is_input_unchanged(l) ||
        stat(output, &seen) || fs_read_file(output, INPUT_MAX, &content, &ignored))
        return false;
    buffer_put_u32(to, RESULT_MAGIC);
    buffer_put_u8(to, (seen.st_mode & S_IXUSR) != 0);
    buffer_put_sized(to, buffer_view(&content));
    buffer_put_sized(to, buffer_view(&l->messages[0]));
    buffer_put_sized(to, buffer_view(&l->messages[1]));
    return !to->failed;
}

/* Replaces the output as clang does: by renaming another file. */
static bool write_output(const char *path, struct bytes content, mode_t mode)
{
    char other[PATH_MAX];
    struct kiln_err ignored = KILN_ERR_INIT;
    const mode_t mask = umask(0);
    umask(mask);
    if (snprintf(other, sizeof(other), "%s.kiln-XXXXXX", path) >= (int)sizeof(other))
        return false;
    KILN_AUTO(fd) int file = mkostemp(other, O_CLOEXEC);
    if (file < 0)
        return false;
    if (fs_write_all(file, content, &ignored) == KILN_OK && fchmod(file, mode & ~mask) == 0 &&
        rename(other, path) == 0)
        return true;
    unlink(other);
    return false;
}

static bool use_bytes(const struct launch *l, struct bytes stored)
{
    struct reader r = reader_of(stored);
    uint32_t magic = reader_u32(&r);
    const mode_t mode = reader_u8(&r) ? 0777 : 0666;
    struct bytes content = reader_sized(&r), out = reader_sized(&r), errors = reader_sized(&r);
    if (r.failed || reader_left(&r) || magic != RESULT_MAGIC ||
        !write_output(l->command->arguments[l->command->output], content, mode))
        return false;
    print_messages(out, errors);
    return true;
}

static bool use(struct rtc_program *p, struct kiln_kernel *stored)
{
    bool is_used = use_bytes((const struct launch *)p,
                             bytes_of(kiln_kernel_data(stored), kiln_kernel_size(stored)));
    kiln_kernel_unref(stored);
    return is_used;
}

/* ---- the key ---- */

static int compare_variables(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns whether a compiler or the dynamic linker may read the variable. */
static bool is_relevant(const char *variable)
{
    static const char *const beginnings[] = {
        "CCC_",    "CLANG", "CPATH=", "CPLUS_INCLUDE", "C_INCLUDE",          "CUDA",
        "HIP",     "LANG",  "LC_",    "LD_",           "LIBRARY_PATH=",      "LLVM",
        "NV",      "OCL",   "OPENCL", "PATH=",         "COMPILER_PATH=",     "GCC_",
        "PTXAS",   "ROCM",  "AMD",    "DEVICE_LIB",    "SOURCE_DATE_EPOCH=", "DEPENDENCIES_OUTPUT=",
        "SUNPRO_", NULL
    };
    for (const char *const *begin = beginnings; *begin; begin++)
        if (strncmp(variable, *begin, strlen(*begin)) == 0)
            return true;
    return false;
}

static bool put_variables(struct buffer *to)
{
    char *found[VARIABLES_MAX];
    size_t count = 0;
    for (char **variable = environ; *variable; variable++)
        if (is_relevant(*variable)) {
            if (count == VARIABLES_MAX)
                return false;
            found[count++] = *variable;
        }
    qsort(found, count, sizeof(*found), compare_variables);
    buffer_put_u32(to, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        buffer_put_sized(to, bytes_of_text(found[i]));
    return true;
}

/* Adds the paths on which the output depends. clang's output may contain the path of the input, and
 * for HIP and CUDA also a digest of other paths.  The output of ptxas contains no paths. */
static bool put_paths(const struct command *c, struct buffer *to)
{
    char directory[PATH_MAX];
    if (!getcwd(directory, sizeof(directory)))
        return false;
    if (!c->is_ptxas)
        buffer_put_sized(to, bytes_of_text(c->arguments[c->input]));
    if (c->has_place) {
        buffer_put_sized(to, bytes_of_text(c->arguments[c->output]));
        buffer_put_sized(to, bytes_of_text(directory));
    }
    return true;
}

/* Adds the options of ptxas to |p->action|, not to |p->options|, because key.c expects clang's
 * options there. */
static bool put_options(const struct command *c, struct rtc_program *p)
{
    p->options = calloc(c->count, sizeof(*p->options));
    for (size_t i = 1; p->options && i < c->count; i++) {
        const char *word = i == c->input    ? "(input)"
                           : i == c->output ? "(output)"
                                            : c->arguments[i];
        if (c->is_ptxas)
            buffer_put_sized(&p->action, bytes_of_text(word));
        else if (!(p->options[p->option_count++] = strdup(word)))
            return false;
    }
    return p->options;
}

static const char *take_input(struct rtc_program *p, const struct command *c)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct buffer content;
    buffer_init(&content, INPUT_MAX);
    bool is_read = fs_read_file(c->arguments[c->input], INPUT_MAX, &content, &ignored) == KILN_OK;
    p->source_digest = sha256_of(buffer_view(&content));
    bool has_time = !c->is_ptxas && words_have_time(buffer_view(&content));
    buffer_put_u8(&content, '\0');
    p->source = (char *)content.data;
    if (!is_read || content.failed)
        return "the input cannot be read, or is larger than 64 MiB";
    return has_time ? "the source contains the time of its compile, or may contain it" : NULL;
}

static const char *describe(struct launch *l, struct rtc_library *library)
{
    const struct command *c = l->command;
    struct rtc_program *p = &l->program;
    char real[PATH_MAX];
    buffer_init(&p->action, ACTION_MAX);
    buffer_init(&p->expressions, 1);
    if (!realpath(c->compiler, real))
        return "the compiler cannot be found";
    library->kind = RTC_COMGR;
    snprintf(library->name, sizeof(library->name), "%s", c->is_ptxas ? "ptxas" : "clang");
    library->identity = sha256_of(bytes_of_text(real));
    p->library = library;
    p->wanted_ns = clock_monotonic_ns();
    p->name = strdup(c->is_ptxas ? "ptxas" : c->arguments[c->input]);
    snprintf(p->architecture, sizeof(p->architecture), "%s", c->target);
    buffer_put_sized(&p->action, bytes_of_text("kiln-cc-1"));
    if (!put_options(c, p) || !put_paths(c, &p->action) || !put_variables(&p->action) || !p->name ||
        p->action.failed)
        return "out of memory, or too many options or variables";
    return take_input(p, c);
}

static void launch_done(struct launch *l)
{
    struct rtc_program *p = &l->program;
    for (size_t i = 0; i < p->option_count; i++)
        free(p->options[i]);
    free(p->options);
    free(p->name);
    free(p->source);
    buffer_done(&p->action);
    for (unsigned i = 0; i < 2; i++)
        buffer_done(&l->messages[i]);
}

int launch_compile(const struct command *command, const char *library, const char **ret_reason)
{
    static const struct answer_calls calls = { .run = run, .collect = collect, .use = use };
    struct launch l = { .command = command, .library = library };
    struct rtc_library compiler = { .base = NULL };
    *ret_reason = describe(&l, &compiler);
    int rc = *ret_reason ? -1 : answer_compile(&calls, &l.program, NULL);
    launch_done(&l);
    return rc;
}
