/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/launcher/launch.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "libclient/rtc/answer.h"
#include "libclient/rtc/files.h"
#include "libclient/rtc/identity.h"
#include "libclient/rtc/launcher/replay.h"
#include "libclient/rtc/notes.h"
#include "libclient/rtc/settings.h"
#include "libclient/rtc/variables.h"
#include "libclient/rtc/words.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define INPUT_MAX (64u << 20)
/* longer messages are printed, but not stored */
#define MESSAGES_MAX (1u << 20)
#define ACTION_MAX (1u << 20)
#define UNREADABLE_INPUT "the input cannot be read, or is larger than 64 MiB"
#define RESULT_MAGIC 0x3243434bu /* "KCC2" */
#define NAMES_MAX 16u            /* attempts to find a name that no file has */

struct launch {
    struct rtc_program program; /* must be the first member */
    const struct command *command;
    const char *library;
    char real[PATH_MAX];       /* the compiler's path without links */
    struct buffer messages[2]; /* what the compiler wrote to standard output and standard error */
    struct buffer notes;       /* what the compiler's processes noted (notes.h) */
    struct buffer output, dependencies; /* the files that the compiler wrote */
    bool is_executable;                 /* the output */
    int signal;                         /* number of the signal that ended the compiler, or 0 */
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

static const int passed_signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
#define PASSED_SIGNALS (sizeof(passed_signals) / sizeof(passed_signals[0]))

static volatile sig_atomic_t compiler_process;
static struct sigaction actions_before[PASSED_SIGNALS], child_action_before;

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

/* Starts the compiler in this process.  If kiln-cc ends, the compiler ends, too. */
static void execute(const struct launch *l, pid_t launcher, int notes, const int messages[2])
{
    set_environment(l, notes);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == launcher &&
        dup2(messages[0], STDOUT_FILENO) >= 0 && dup2(messages[1], STDERR_FILENO) >= 0)
        execv(l->command->compiler, l->command->arguments);
    _exit(127);
}

static void pass_signal(int number) { kill(compiler_process, number); }

static void block_signals(sigset_t *ret_before)
{
    sigset_t passed;
    sigemptyset(&passed);
    for (size_t i = 0; i < PASSED_SIGNALS; i++)
        sigaddset(&passed, passed_signals[i]);
    sigprocmask(SIG_BLOCK, &passed, ret_before);
}

/* From now on, passes signals to the process |child|.  A signal that kiln-cc ignores, |child|
 * ignores, too. */
static void pass_signals(pid_t child)
{
    const struct sigaction pass = { .sa_handler = pass_signal, .sa_flags = SA_RESTART };
    compiler_process = child;
    for (size_t i = 0; i < PASSED_SIGNALS; i++) {
        struct sigaction *before = &actions_before[i];
        if (sigaction(passed_signals[i], NULL, before) == 0 && before->sa_handler != SIG_IGN)
            sigaction(passed_signals[i], &pass, NULL);
    }
}

/* Undoes pass_signals and expect_child. */
static void restore_signals(void)
{
    sigaction(SIGCHLD, &child_action_before, NULL);
    for (size_t i = 0; i < PASSED_SIGNALS; i++)
        sigaction(passed_signals[i], &actions_before[i], NULL);
}

/* Lets wait_for learn how the compiler ended.  If SIGCHLD is ignored, as a parent may have
 * arranged, the kernel forgets this. */
static void expect_child(void)
{
    const struct sigaction standard = { .sa_handler = SIG_DFL };
    sigaction(SIGCHLD, &standard, &child_action_before);
}

/* Returns the process of the compiler, or -1. */
static pid_t start_compiler(const struct launch *l, int notes, const int messages[2])
{
    sigset_t before;
    const pid_t launcher = getpid();
    block_signals(&before);
    expect_child();
    pid_t child = fork();
    if (child > 0)
        pass_signals(child);
    else
        sigaction(SIGCHLD, &child_action_before, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child == 0)
        execute(l, launcher, notes, messages);
    return child;
}

/* Returns the exit status, or 128 plus the number of the signal, which |ret_signal| receives. As
 * long as signals are passed, the number of the process belongs to no other process. */
static int wait_for(pid_t child, int *ret_signal)
{
    siginfo_t ignored;
    int status = 0;
    while (waitid(P_PID, (id_t)child, &ignored, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    restore_signals();
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    *ret_signal = WIFEXITED(status) ? 0 : WTERMSIG(status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Ends kiln-cc by the signal that ended the compiler, without a core dump. */
static void end_by_signal(int number)
{
    const struct rlimit none = { 0, 0 };
    setrlimit(RLIMIT_CORE, &none);
    settings_write_report();
    signal(number, SIG_DFL);
    raise(number);
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

static void copy(int from, int to)
{
    char text[1u << 14];
    ssize_t size;
    for (off_t at = 0; (size = fs_read_at(from, text, sizeof(text), at)) > 0; at += size)
        print(to, bytes_of(text, (size_t)size));
}

static void take_notes(struct launch *l, int file)
{
    const struct command *c = l->command;
    const struct replay_paths paths = { l->real, c->arguments[c->input], c->arguments[c->output],
                                        c->dependencies };
    take_content(file, INPUT_MAX, &l->notes);
    if (l->notes.failed)
        buffer_done(&l->notes);
    replay_notes(buffer_view(&l->notes), &paths);
}

/* Returns whether the file's content is still that of the compiler, which ended at |ended|.  Does
 * not notice that another program wrote the same file within the tick of the clock in which the
 * compiler ended, because the compiler's own last write may have the same time. */
static bool is_of_compiler(const struct launch *l, const struct stat *seen, struct timespec ended)
{
    return replay_has_written(buffer_view(&l->notes), seen) &&
           (seen->st_ctim.tv_sec < ended.tv_sec ||
            (seen->st_ctim.tv_sec == ended.tv_sec && seen->st_ctim.tv_nsec <= ended.tv_nsec));
}

/* Reads a file that the compiler wrote.  Returns NULL, or why the result cannot be stored. */
static const char *take_file(const struct launch *l, const char *path, struct timespec ended,
                             struct buffer *ret_content, bool *ret_is_executable)
{
    struct stat seen, after;
    KILN_AUTO(fd) int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &seen))
        return "the output cannot be read";
    take_content(file, INPUT_MAX, ret_content);
    if (ret_content->failed || fstat(file, &after))
        return "the output cannot be read, or is larger than 64 MiB";
    *ret_is_executable = seen.st_mode & S_IXUSR;
    return is_of_compiler(l, &after, ended) ? NULL : "another program wrote the output";
}

static void take_files(struct launch *l)
{
    struct timespec ended; /* not before the times of the files that the compiler wrote */
    bool ignored;
    clock_gettime(CLOCK_REALTIME, &ended);
    const char *reason = take_file(l, l->command->arguments[l->command->output], ended, &l->output,
                                   &l->is_executable);
    if (!reason && l->command->dependencies[0])
        reason = take_file(l, l->command->dependencies, ended, &l->dependencies, &ignored);
    if (reason)
        files_refuse(reason);
}

/* Starts the compiler as if there were no kiln-cc.  Returns only if this fails. */
static int start_unchanged(const struct launch *l, const char *reason)
{
    if (reason)
        settings_count_forwarded(reason, l->program.name);
    settings_write_report();
    execv(l->command->compiler, l->command->arguments);
    fprintf(stderr, "kiln-cc: cannot run '%s': %s\n", l->command->compiler, strerror(errno));
    return 127;
}

static bool has_text(const struct buffer *messages, const char *text)
{
    return messages->size && memmem(messages->data, messages->size, text, strlen(text));
}

/* Returns whether a message contains a file's name that is not part of the key. */
static bool has_other_names(const struct launch *l)
{
    const struct command *c = l->command;
    bool has_name = false;
    for (unsigned i = 0; c->is_ptxas && i < 2; i++)
        has_name |= has_text(&l->messages[i], c->arguments[c->input]) ||
                    has_text(&l->messages[i], c->arguments[c->output]);
    return has_name;
}

static int run(struct rtc_program *p)
{
    struct launch *l = (struct launch *)p;
    KILN_AUTO(fd) int notes = memfd_create("kiln-cc notes", 0);
    KILN_AUTO(fd) int out = memfd_create("kiln-cc output", MFD_CLOEXEC);
    KILN_AUTO(fd) int errors = memfd_create("kiln-cc errors", MFD_CLOEXEC);
    const int messages[2] = { out, errors };
    bool is_ready = notes >= 0 && out >= 0 && errors >= 0 && fcntl(notes, F_SETFL, O_APPEND) == 0;
    pid_t child = is_ready ? start_compiler(l, notes, messages) : -1;
    if (child < 0)
        return start_unchanged(l, NULL);
    int rc = wait_for(child, &l->signal);
    take_notes(l, notes);
    if (rc && !l->signal && !l->notes.size)
        return start_unchanged(l, "the compiler does not start with libkiln-rtc");
    if (!rc)
        take_files(l);
    for (unsigned i = 0; i < 2; i++)
        take_content(messages[i], MESSAGES_MAX, &l->messages[i]);
    if (has_other_names(l))
        files_refuse("the messages name a file");
    copy(out, STDOUT_FILENO);
    copy(errors, STDERR_FILENO);
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
    if (l->messages[0].failed || l->messages[1].failed || !is_input_unchanged(l))
        return false;
    buffer_put_u32(to, RESULT_MAGIC);
    buffer_put_u8(to, l->is_executable);
    buffer_put_sized(to, buffer_view(&l->output));
    buffer_put_sized(to, buffer_view(&l->dependencies));
    buffer_put_sized(to, buffer_view(&l->messages[0]));
    buffer_put_sized(to, buffer_view(&l->messages[1]));
    return !to->failed;
}

/* Makes a file in the directory of |path|, and writes its path into |ret_other|. */
static int make_other(const char *path, mode_t mode, char ret_other[PATH_MAX])
{
    int file = -1;
    for (unsigned i = 0; file < 0 && i < NAMES_MAX; i++) {
        int size = snprintf(ret_other, PATH_MAX, "%s.kiln-%d-%u", path, (int)getpid(), i);
        if (size < PATH_MAX)
            file = open(ret_other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    }
    return file;
}

static bool replace(const char *path, struct bytes content, mode_t mode)
{
    char other[PATH_MAX];
    struct kiln_err ignored = KILN_ERR_INIT;
    KILN_AUTO(fd) int file = make_other(path, mode, other);
    if (file < 0)
        return false;
    if (fs_write_all(file, content, &ignored) == KILN_OK && rename(other, path) == 0)
        return true;
    unlink(other);
    return false;
}

/* Replaces a file as clang does: by renaming another file.  Blocks signals meanwhile, so that they
 * leave no other file. */
static bool write_file(const char *path, struct bytes content, mode_t mode)
{
    sigset_t before;
    block_signals(&before);
    bool is_written = replace(path, content, mode);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return is_written;
}

static bool use_bytes(const struct launch *l, struct bytes stored)
{
    struct reader r = reader_of(stored);
    const struct command *c = l->command;
    uint32_t magic = reader_u32(&r);
    const mode_t mode = reader_u8(&r) ? 0777 : 0666;
    struct bytes output = reader_sized(&r), dependencies = reader_sized(&r);
    struct bytes out = reader_sized(&r), errors = reader_sized(&r);
    if (r.failed || reader_left(&r) || magic != RESULT_MAGIC ||
        (c->dependencies[0] && !write_file(c->dependencies, dependencies, 0666)) ||
        !write_file(c->arguments[c->output], output, mode))
        return false;
    print(STDOUT_FILENO, out);
    print(STDERR_FILENO, errors);
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

/* Adds the paths on which the output depends. clang's output may contain the path of the input, and
 * for HIP and CUDA also a digest of other paths.  A dependency file contains the output's path. The
 * output of ptxas contains no paths. */
static bool put_paths(const struct command *c, struct buffer *to)
{
    char directory[PATH_MAX], input[PATH_MAX];
    if (!getcwd(directory, sizeof(directory)) || !realpath(c->arguments[c->input], input))
        return false;
    if (!c->is_ptxas)
        buffer_put_sized(to, bytes_of_text(c->arguments[c->input]));
    if (c->has_place || c->dependencies[0])
        buffer_put_sized(to, bytes_of_text(c->arguments[c->output]));
    if (c->has_place) {
        buffer_put_sized(to, bytes_of_text(input));
        buffer_put_sized(to, bytes_of_text(directory));
    }
    return true;
}

/* Adds the compiler's paths. clang's name is also the name of its driver: clang++ is a link to
 * clang, but compiles C++. */
static struct digest digest_compiler(const struct command *c, const char *real)
{
    BUFFER_AUTO struct buffer paths;
    buffer_init(&paths, 4 * PATH_MAX);
    buffer_put_sized(&paths, bytes_of_text(real));
    buffer_put_sized(&paths, bytes_of_text(c->compiler));
    buffer_put_sized(&paths, bytes_of_text(c->is_ptxas ? "" : c->arguments[0]));
    return sha256_of(buffer_view(&paths));
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
        return UNREADABLE_INPUT;
    for (size_t i = 0; i < p->option_count; i++)
        has_time |= words_have_time(bytes_of_text(p->options[i]));
    return has_time ? "the source contains the time of its compile, or may contain it" : NULL;
}

static const char *describe(struct launch *l, struct rtc_library *library)
{
    const struct command *c = l->command;
    struct rtc_program *p = &l->program;
    buffer_init(&p->action, ACTION_MAX);
    buffer_init(&p->expressions, 1);
    if (access(c->arguments[c->input], R_OK))
        return UNREADABLE_INPUT;
    if (!realpath(c->compiler, l->real))
        return "the compiler cannot be found";
    if (!c->is_ptxas && variables_add_options(READER_PROGRAM))
        return "an environment variable adds options";
    library->kind = RTC_COMGR;
    snprintf(library->name, sizeof(library->name), "%s", c->is_ptxas ? "ptxas" : "clang");
    library->identity = digest_compiler(c, l->real);
    p->library = library;
    p->wanted_ns = clock_monotonic_ns();
    p->name = strdup(c->is_ptxas ? "ptxas" : c->arguments[c->input]);
    snprintf(p->architecture, sizeof(p->architecture), "%s", c->target);
    const struct digest variables = variables_digest(READER_PROGRAM);
    buffer_put_sized(&p->action, bytes_of_text("kiln-cc-3"));
    buffer_put(&p->action, variables.bytes, DIGEST_SIZE);
    if (!put_options(c, p) || !put_paths(c, &p->action) || !p->name || p->action.failed)
        return "out of memory, or too many options";
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
    buffer_done(&l->notes);
    buffer_done(&l->output);
    buffer_done(&l->dependencies);
}

int launch_compile(const struct command *command, const char *library, const char **ret_reason)
{
    static const struct answer_calls calls = { .run = run, .collect = collect, .use = use };
    struct launch l = { .command = command, .library = library };
    struct rtc_library compiler = { .base = NULL };
    *ret_reason = describe(&l, &compiler);
    int rc = *ret_reason ? -1 : answer_compile(&calls, &l.program, NULL);
    launch_done(&l);
    if (l.signal)
        end_by_signal(l.signal);
    return rc;
}
