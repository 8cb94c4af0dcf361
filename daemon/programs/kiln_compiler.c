/* SPDX-License-Identifier: MIT */
/*
 * kiln-compiler: a process that compiles what kilnd sends it, one job at a time.
 *
 *     kiln-compiler --temp DIR [--max-jobs N] [--limits ...] [--user ...] [--outside ...]
 *     the socket is descriptor 3
 *
 *   enter_box             sets limits, a process group, namespaces and the user, and then gives up
 *                         the privileges that these steps may need
 *   prepare_process       makes the process end with kilnd, and removes access to everything on the
 *                         host that a compiler does not need
 *   compiler_worker_serve runs the jobs (engine/compile/worker.c)
 *
 * kilnd starts it as kilnd's own user.  The process gives up its rights itself, before it reads a
 * toolchain's files or a job.
 */
#include "common/base/give_way.h"
#include "common/base/units.h"
#include "engine/compile/compiler.h"
#include "engine/compile/confine.h"
#include "engine/compile/process_limits.h"
#include "engine/compile/worker_wire.h"
#include "engine/sandbox/capabilities.h"
#include "engine/sandbox/change_user.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define SOCKET_FD 3
#define EXIT_USAGE 2
#define EXIT_SURROUNDINGS 4
/* Size of the private directory, as a multiple of the limit for one object.  The directory is in
 * memory.  At their peak, hiprtc and clang store the object twice (before and after linking), and
 * PoCL three times. */
#define DIRECTORY_FILES 4u
/* With this nice value, a compiler gets a third as much processor time as kilnd or a client. */
#define SESSION_NICENESS 5
#define CPU_MAX_CONFINE_S 2u

/* LeakSanitizer would have to read this process's memory, which the sandbox forbids. */
#if defined(__SANITIZE_ADDRESS__)
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }
#elif defined(__SANITIZE_THREAD__)
#define OTHERS(kind)                                                                       \
    kind ":libamdhip64\n" kind ":libhiprtc\n" kind ":libamd_comgr\n" kind ":libhsa\n" kind \
         ":libLLVM\n" kind ":libclang\n" kind ":libnvrtc\n" kind ":libpocl\n" kind         \
         ":libOpenCL\n" kind ":libhwloc\n"
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return OTHERS("race") OTHERS("deadlock") OTHERS("thread");
}
#endif

struct arguments_given {
    const char *temp;
    /* The back end to describe; the description is sent on descriptor 3.  Only another
     * kiln-compiler sets this member. */
    const char *describe;
    /* only set by another kiln-compiler: |files| belong to a job that was received already */
    bool resume;
    int files[3];
    uint64_t max_jobs;
    const char *limits_text;
    struct process_limits limits;
    const char *user; /* NULL: the process keeps its user */
    unsigned uid, gid;
    /* kilnd's namespaces; NULL: the namespaces that this program was started in */
    const char *outside;
};

static int usage(FILE *to, int status)
{
    fprintf(to,
            "usage: kiln-compiler --temp DIR [--max-jobs N] [--limits S,MEMORY,OUTPUT] "
            "[--user UID:GID] [--outside N,...]\n"
            "Compiles jobs for kilnd, which starts it with a socket as descriptor 3.\n"
            "  --temp DIR      the only directory that it writes to\n"
            "  --max-jobs N    exit after N jobs (default: when kilnd closes the socket)\n"
            "  --limits ...    limits: processor seconds, bytes of addresses, bytes of one file\n"
            "  --user UID:GID  first change to that user and group\n"
            "  --outside N,... numbers of the namespaces that it must have left\n"
            "  --version       print the version\n");
    return status;
}

static bool read_files(const char *text, int files[3])
{
    return sscanf(text, "%d,%d,%d", &files[0], &files[1], &files[2]) == 3;
}

static bool read_limits(const char *text, struct arguments_given *given)
{
    struct process_limits *limits = &given->limits;
    given->limits_text = text;
    return sscanf(text, "%" SCNu64 ",%" SCNu64 ",%" SCNu64, &limits->cpu_s, &limits->memory,
                  &limits->output) == 3;
}

static bool read_user(const char *text, struct arguments_given *given)
{
    given->user = text;
    return sscanf(text, "%u:%u", &given->uid, &given->gid) == 2;
}

static int refuse_flag(const char *flag, const char *wanted, const char *text)
{
    fprintf(stderr, "kiln-compiler: %s takes %s, not '%s'\n", flag, wanted, text);
    return EXIT_USAGE;
}

static int read_arguments(int argc, char **argv, struct arguments_given *given)
{
    static const struct option known[] = {
        { "temp", required_argument, NULL, 't' },     { "max-jobs", required_argument, NULL, 'n' },
        { "describe", required_argument, NULL, 'd' }, { "version", no_argument, NULL, 'V' },
        { "help", no_argument, NULL, 'h' },           { "resume", required_argument, NULL, 'r' },
        { "limits", required_argument, NULL, 'l' },   { "user", required_argument, NULL, 'u' },
        { "outside", required_argument, NULL, 'o' },  { NULL, 0, NULL, 0 },
    };
    for (int c; (c = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        switch (c) {
        case 't': given->temp = optarg; break;
        case 'd': given->describe = optarg; break;
        case 'o': given->outside = optarg; break;
        case 'r': given->resume = read_files(optarg, given->files); break;
        case 'h': return usage(stdout, 0);
        case 'V': return printf("kiln-compiler %s\n", KILN_VERSION) > 0 ? 0 : 1;
        case 'n':
            if (units_parse_number(optarg, UINT_MAX, &given->max_jobs))
                break;
            return refuse_flag("--max-jobs", "a number", optarg);
        case 'l':
            if (read_limits(optarg, given))
                break;
            return refuse_flag("--limits", "S,MEMORY,OUTPUT", optarg);
        case 'u':
            if (read_user(optarg, given))
                break;
            return refuse_flag("--user", "UID:GID", optarg);
        default: return usage(stderr, EXIT_USAGE);
        }
    }
    if (optind == argc && (given->temp || given->describe))
        return -1;
    return usage(stderr, EXIT_USAGE);
}

/* Overwrites the environment, because clearenv leaves its texts in memory. A source that takes
 * control of the compiler could read them, such as the credentials of the fleet's store. */
static void wipe_variables(void)
{
    for (char **at = environ; at && *at; at++)
        explicit_bzero(*at, strlen(*at));
    clearenv();
}

/* Removes all variables except those in |kept|, because dozens of variables change what compilers
 * do. */
static bool keep_few_variables(void)
{
    static const char *const kept[] = { "PATH",           "LD_LIBRARY_PATH", "OCL_ICD_VENDORS",
                                        "KILN_CUDA_PATH", "KILN_ROCM_PATH",  "ASAN_OPTIONS",
                                        "UBSAN_OPTIONS",  "TSAN_OPTIONS" };
    char *values[sizeof(kept) / sizeof(kept[0])] = { NULL };
    bool fine = true;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        const char *value = getenv(kept[i]);
        values[i] = value ? strdup(value) : NULL;
        fine = fine && (!value || values[i]);
    }
    wipe_variables();
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        fine = fine && (!values[i] || setenv(kept[i], values[i], 1) == 0);
        free(values[i]);
    }
    return fine && setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 0) == 0;
}

static bool set_variables(const char *directory)
{
    char pocl[PATH_MAX];
    if ((size_t)snprintf(pocl, sizeof(pocl), "%s/pocl", directory) >= sizeof(pocl))
        return false;
    mkdir(pocl, 0700);
    return setenv("HOME", directory, 1) == 0 && setenv("TMPDIR", directory, 1) == 0 &&
           setenv("LC_ALL", "C.UTF-8", 1) == 0 && setenv("AMD_COMGR_CACHE", "0", 1) == 0 &&
           setenv("CUDA_CACHE_DISABLE", "1", 1) == 0 && setenv("POCL_CACHE_DIR", pocl, 1) == 0 &&
           setenv("POCL_KERNEL_CACHE", "0", 1) == 0;
}

static bool no_input(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bool fine = fd >= 0 && dup2(fd, STDIN_FILENO) == STDIN_FILENO;
    fd_auto(&fd);
    return fine;
}

static enum kiln_code give_up_privileges(const struct arguments_given *given, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (given->user)
        rc = change_user(given->uid, given->gid, "compiler_user", err);
    /* Even a process of an unprivileged user has privileges after it created a user namespace. */
    if (!rc && !give_up_capabilities())
        rc = kiln_fail_errno(err, errno, "cannot drop the privileges of a compiler process");
    return rc;
}

static enum kiln_code become_user(const struct arguments_given *given, struct kiln_err *err)
{
    enum kiln_code rc = give_up_privileges(given, err);
    if (!rc && given->user && access("/proc/self/exe", X_OK) != 0)
        rc = kiln_fail_errno(
            err, errno,
            "user %u may not execute this program, which must start itself again for "
            "another toolchain (chmod o+rx)",
            given->uid);
    return rc;
}

static bool stay_behind(void *context)
{
    struct kiln_err err = KILN_ERR_INIT;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    enum kiln_code rc = give_up_privileges(context, &err);
    if (rc)
        fprintf(stderr, "kiln-compiler: %s\n", err.text);
    return rc == KILN_OK;
}

/* Limits come first: after a change of user, a process may not set its OOM score.  Creating
 * namespaces needs privileges: either those of kilnd, or those that any user has in a new user
 * namespace.  That namespace must belong to the user that the process will run as. */
static enum kiln_code enter_box(struct arguments_given *given, char directory[PATH_MAX],
                                struct confinement *c, struct kiln_err *err)
{
    struct process_limits limits = given->limits;
    bool privileged = has_capability(CAP_SYS_ADMIN);
    limits.jobs = (unsigned)given->max_jobs;
    enum kiln_code rc = KILN_OK;
    if (given->limits_text) {
        give_way_to_kilnd(SESSION_NICENESS);
        rc = process_limits_apply(&limits, err);
    }
    if (!rc && !realpath(given->temp, directory))
        rc = kiln_fail_errno(err, errno, "there is no directory '%s'", given->temp);
    if (!rc && !privileged && given->user)
        rc = become_user(given, err);
    if (rc)
        return rc;
    setpgid(0, 0); /* kilnd kills it together with its children */
    const struct confine_options options = { .directory = directory,
                                             .free_space = DIRECTORY_FILES * given->limits.output,
                                             .outside = given->outside,
                                             .is_workers_user = given->user != NULL,
                                             .give_up = stay_behind,
                                             .context = given };
    rc = confine_begin(c, &options, err);
    return rc ? rc : become_user(given, err);
}

static enum kiln_code stay_in_box(char directory[PATH_MAX], struct kiln_err *err)
{
    if (!getcwd(directory, PATH_MAX))
        return kiln_fail_errno(err, errno, "cannot determine the directory for temporary files");
    return KILN_OK;
}

/* Makes Linux kill this process when its parent ends.  Returns false if the parent ended before the
 * call of prctl, because Linux then sends no signal.  |starter| was the parent when this program
 * began. getppid() returns 0 for a parent outside of this process namespace, such as the
 * namespace's supervisor. */
static bool die_with_parent(pid_t starter)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pid_t parent = getppid();
    return parent == starter || parent == 0;
}

/* Confines the process with a limit of processor time, because libseccomp can loop without end
 * after a failed allocation. */
static enum kiln_code confine_in_time(struct confinement *c, struct kiln_err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CPU, &limit) != 0)
        return kiln_fail_errno(err, errno, "cannot read its limit of processor time");
    process_limits_next_job(CPU_MAX_CONFINE_S);
    enum kiln_code rc = confine_finish(c, err);
    if (!rc && setrlimit(RLIMIT_CPU, &limit) != 0)
        rc = kiln_fail_errno(err, errno, "cannot restore its limit of processor time");
    return rc;
}

static int prepare_process(struct arguments_given *given, pid_t starter, struct confinement *c)
{
    char directory[PATH_MAX];
    struct kiln_err err = KILN_ERR_INIT;
    if (given->resume ? stay_in_box(directory, &err) : enter_box(given, directory, c, &err)) {
        fprintf(stderr, "kiln-compiler: %s\n", err.text);
        return EXIT_SURROUNDINGS;
    }
    /* Without SIGXFSZ, a write beyond the limit fails with EFBIG, which can be reported.  The
     * signal is blocked, not ignored: LLVM installs its own handler for an ignored signal. */
    sigset_t beyond_limit;
    sigemptyset(&beyond_limit);
    sigaddset(&beyond_limit, SIGXFSZ);
    sigprocmask(SIG_BLOCK, &beyond_limit, NULL);
    if (!die_with_parent(starter))
        return EXIT_SURROUNDINGS;
    umask(0077);
    if (chdir(directory) != 0) {
        fprintf(stderr, "kiln-compiler: user %u cannot enter the directory '%s': %s\n",
                (unsigned)getuid(), directory, strerror(errno));
        return EXIT_SURROUNDINGS;
    }
    if (!keep_few_variables() || !set_variables(directory) || !no_input()) {
        fprintf(stderr, "kiln-compiler: cannot set up its environment: %s\n", strerror(errno));
        return EXIT_SURROUNDINGS;
    }
    /* Other programs that this process runs must not read its memory. execve has reset this
     * setting. */
    prctl(PR_SET_DUMPABLE, 0);
    if (given->resume || !confine_in_time(c, &err))
        return 0;
    fprintf(stderr, "kiln-compiler: %s\n", err.text);
    return EXIT_SURROUNDINGS;
}

int main(int argc, char **argv)
{
    struct arguments_given given = { 0 };
    pid_t starter = getppid();
    int status = read_arguments(argc, argv, &given);
    if (status >= 0)
        return status;
    if (given.describe)
        return compiler_describe_to(given.describe, SOCKET_FD);
    struct stat seen;
    if (fstat(SOCKET_FD, &seen) != 0 || !S_ISSOCK(seen.st_mode)) {
        fprintf(stderr,
                "kiln-compiler: descriptor 3 is not a socket: only kilnd can start this program\n");
        return EXIT_USAGE;
    }
    fcntl(SOCKET_FD, F_SETFD, FD_CLOEXEC);
    /* Closes descriptors that kilnd inherited, so that a malicious source that controls the
     * compiler cannot use them. With --resume, the job's files are among the open descriptors. */
    if (!given.resume)
        closefrom(SOCKET_FD + 1);
    static struct confinement confinement;
    status = prepare_process(&given, starter, &confinement);
    if (status)
        return status;
    const struct compiler_worker_options options = {
        .socket_fd = SOCKET_FD,
        .max_jobs = (unsigned)given.max_jobs,
        .cpu_s = given.limits.cpu_s,
        .sandbox = &confinement.report,
        .limits = given.limits_text,
        .user = given.user,
    };
    return given.resume ? compiler_worker_resume(&options, given.files)
                        : compiler_worker_serve(&options);
}
