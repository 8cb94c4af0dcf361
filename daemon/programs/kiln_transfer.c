/* SPDX-License-Identifier: MIT */
/*
 * kiln-transfer: a process that does one of these:
 *
 *     kiln-transfer [--user UID:GID | --launched]
 *         gets one package for kilnd, checks it, and ends; the socket is descriptor 3
 *     kiln-transfer --fleet [--user UID:GID | --launched]
 *         reads files of the fleet's tree for kilnd, until kilnd closes the socket
 *     kiln-transfer --snapshot PATH
 *         opens a database that may be in use, and sends the descriptor to kilnctl.  kilnctl has
 *         started this process with the rights of kilnctl's user
 */
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/give_way.h"
#include "engine/transfer/confine.h"
#include "engine/transfer/fleet_serve.h"
#include "engine/transfer/reach.h"
#include "engine/transfer/transfer.h"
#include "engine/transfer/transfer_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
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
#define FILES_MAX 128
/* Maximum number of processes and threads (RLIMIT_NPROC, which does not apply to root). libcurl
 * resolves names in threads. */
#define PROCESSES_MAX 4096
#define MEMORY_MAX (2ull << 30)
/* Limit of processor time.  Unpacking the largest package takes about 400 seconds. */
#define CPU_MAX_S 1200u
/* Limit of processor time for a user's file.  Such a file needs no signature, so an attacker may
 * have crafted it to take long. */
#define CPU_MAX_USER_S 300u
/* Limit of processor time until the process is confined. libseccomp can loop without end after a
 * failed allocation. */
#define CPU_MAX_CONFINE_S 2u
#define SESSION_NICENESS 10
/* Maximum size of a file of the fleet.  An index has at most 19 MiB. */
#define FLEET_FILE_MAX (32u << 20)
#define PROGRESS_EVERY_NS 200000000u

/* The sanitizers' own memory exceeds any useful limit, and LeakSanitizer reads /proc, which this
 * process cannot do.  The unit tests of engine/transfer check for leaks. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMIT_MEMORY 0
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }
#else
#define LIMIT_MEMORY 1
#endif

static struct {
    char directory[512];
    struct transfer_result result;
} workplace;

static void on_terminate(int signal)
{
    if (workplace.directory[0] && chdir(workplace.directory) == 0) {
        unlink(TRANSFER_FETCHED);
        unlink(TRANSFER_MANIFEST);
        unlink(SNAPSHOT_COPY);
        unlink(SNAPSHOT_COPY "-journal");
        if (workplace.result.name[0])
            unlink(workplace.result.name);
        /* if this confined process may not remove the directory, kilnd does */
        rmdir(workplace.directory);
    }
    _exit(128 + signal);
}

static bool take_place(const char *directory)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
    if (strlen(directory) >= sizeof(workplace.directory))
        return false;
    strcpy(workplace.directory, directory);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], on_terminate);
    return true;
}

struct reporter {
    char stage[16];
    unsigned attempt;
    uint64_t reported_ns;
};

static void report_progress(void *context, const struct transfer_progress *progress)
{
    struct reporter *r = context;
    uint64_t now = clock_monotonic_ns();
    bool news = strcmp(progress->stage, r->stage) != 0 || progress->attempt != r->attempt;
    if (!news && now - r->reported_ns < PROGRESS_EVERY_NS)
        return;
    r->reported_ns = now;
    r->attempt = progress->attempt;
    snprintf(r->stage, sizeof(r->stage), "%s", progress->stage);
    transfer_send_progress(SOCKET_FD, progress);
}

static bool set_limit(int resource, uint64_t most)
{
    struct rlimit now;
    if (getrlimit(resource, &now) != 0)
        return false;
    if (most < now.rlim_max)
        now.rlim_max = most;
    now.rlim_cur = now.rlim_max;
    return setrlimit(resource, &now) == 0;
}

static bool set_limits(const struct transfer_job *job)
{
    signal(SIGXFSZ, SIG_IGN);
    return set_limit(RLIMIT_FSIZE, job->size_limit) && set_limit(RLIMIT_CORE, 0) &&
           set_limit(RLIMIT_CPU, job->of_user ? CPU_MAX_USER_S : CPU_MAX_S) &&
           set_limit(RLIMIT_NOFILE, FILES_MAX) && set_limit(RLIMIT_NPROC, PROCESSES_MAX) &&
           (!LIMIT_MEMORY || set_limit(RLIMIT_DATA, MEMORY_MAX));
}

/* Changes only the soft limit, so the hard limit of set_limits still applies. */
static bool limit_cpu(rlim_t seconds)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_CPU, &now) != 0)
        return false;
    now.rlim_cur = seconds < now.rlim_max ? seconds : now.rlim_max;
    return setrlimit(RLIMIT_CPU, &now) == 0;
}

/* Whether kiln-launch started this process.  If so, kilnd is at the other end of the socket but is
 * not the parent, and the unit ends with kiln-launch. */
static bool is_launched;

/* Makes Linux send signal |number| when the parent ends.  Linux sends no signal if the parent ended
 * before the call of prctl, so this function also compares the parent with the peer of the
 * socket. */
static void die_with_parent(int number)
{
    struct ucred peer = { 0 };
    socklen_t size = sizeof(peer);
    prctl(PR_SET_PDEATHSIG, number);
    if (!is_launched && getsockopt(SOCKET_FD, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        peer.pid > 0 && peer.pid != getppid())
        raise(number);
}

static enum kiln_code fail_limits(struct kiln_err *err)
{
    return kiln_fail(err, KILN_UNAVAILABLE, "cannot set the limits of a transfer process");
}

/* |ret_notice| receives which layers of the sandbox are missing.  It does not change if all layers
 * are in place. */
static enum kiln_code prepare_process(struct received_job *received,
                                      const struct transfer_user *user, struct kiln_err *ret_notice,
                                      struct kiln_err *err)
{
    struct transfer_job *job = &received->job;
    umask(0022);
    if (!take_place(job->staging))
        return kiln_fail(err, KILN_INVALID, "the directory '%s' is too long", job->staging);
    if (!set_limits(job) || !limit_cpu(CPU_MAX_CONFINE_S))
        return fail_limits(err);
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = transfer_reach(received, user, err);
    if (rc)
        return rc;
    if (user)
        strcpy(workplace.directory, ".");
    rc = transfer_confine(job, user, &why);
    die_with_parent(SIGTERM); /* call it again, because the change of user clears the signal */
    if (rc == KILN_UNSUPPORTED)
        kiln_fail(ret_notice, rc,
                  "transfers, which run as user %u, are less confined than they should be: %.300s",
                  (unsigned)getuid(), why.text);
    else if (rc)
        *err = why;
    if (rc && rc != KILN_UNSUPPORTED)
        return rc;
    return limit_cpu(RLIM_INFINITY) ? KILN_OK : fail_limits(err);
}

static int serve_job(const struct transfer_user *user)
{
    struct received_job received;
    struct kiln_err err = KILN_ERR_INIT, notice = KILN_ERR_INIT;
    die_with_parent(SIGKILL);
    store_credentials_forget(); /* a package's server may take control of this process */
    give_way_to_kilnd(SESSION_NICENESS);
    if (transfer_receive_job(SOCKET_FD, &received, &err)) {
        fprintf(stderr, "kiln-transfer: %s\n", err.text);
        return EXIT_SURROUNDINGS;
    }
    struct reporter reporter = { 0 };
    const struct transfer_sink sink = { .progress = report_progress, .context = &reporter };
    if (prepare_process(&received, user, &notice, &workplace.result.err) == KILN_OK)
        transfer_run(&received.job, &fetch_policy_standard, &sink, &workplace.result);
    int status = workplace.result.err.code ? EXIT_FAILURE : EXIT_SUCCESS;
    if (!status)
        workplace.directory[0] = '\0'; /* from here on kilnd owns the file */
    transfer_send_result(SOCKET_FD, &workplace.result, notice.text);
    /* exits at once: kilnd has the result, and closing a file could block for ever */
    _exit(status);
}

static bool set_fleet_limits(void)
{
    signal(SIGXFSZ, SIG_IGN);
    return set_limit(RLIMIT_FSIZE, FLEET_FILE_MAX) && set_limit(RLIMIT_CORE, 0) &&
           set_limit(RLIMIT_NOFILE, FILES_MAX) && set_limit(RLIMIT_NPROC, PROCESSES_MAX) &&
           (!LIMIT_MEMORY || set_limit(RLIMIT_DATA, MEMORY_MAX));
}

static enum kiln_code prepare_fleet(const struct url *url, bool writes,
                                    const struct transfer_user *user,
                                    struct fleet_source *ret_source, struct kiln_err *err)
{
    struct fleet_tree_place place = { .directory = url->path, .writes = writes };
    struct kiln_err why = KILN_ERR_INIT;
    umask(0022);
    if (!set_fleet_limits())
        return fail_limits(err);
    enum kiln_code rc = fleet_source_open(url, ret_source, err);
    if (rc)
        return rc;
    place.reads_token = ret_source->provider.kind == STORE_PROVIDER_CONTAINER;
    rc = fleet_confine(&place, user, &why);
    die_with_parent(SIGKILL); /* call it again, because the change of user clears the signal */
    if (rc == KILN_UNSUPPORTED)
        fprintf(stderr, "kiln-transfer: less confined than it should be: %s\n", why.text);
    else if (rc)
        *err = why;
    return rc == KILN_UNSUPPORTED ? KILN_OK : rc;
}

static int serve_fleet(const struct transfer_user *user)
{
    struct fleet_setup setup;
    KILN_AUTO(url) struct url url = { 0 };
    struct fleet_source source;
    struct kiln_err err = KILN_ERR_INIT;
    die_with_parent(SIGKILL);
    enum kiln_code rc = fleet_receive_setup(SOCKET_FD, &setup, &err);
    if (!rc)
        rc = url_parse(setup.url, &url, &err);
    if (!rc)
        rc = prepare_fleet(&url, setup.writes, user, &source, &err);
    if (!rc)
        rc = fleet_serve(SOCKET_FD, &source, &err);
    if (rc)
        fprintf(stderr, "kiln-transfer: %s\n", err.text);
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

static enum kiln_code make_directory(char directory[512], struct kiln_err *err)
{
    const char *base = getenv("TMPDIR");
    int size = snprintf(directory, 512, "%s/kiln-snapshot-XXXXXX", base && *base ? base : "/tmp");
    if (size < 0 || size >= 512 || !mkdtemp(directory))
        return kiln_fail(err, KILN_IO,
                         "cannot make a temporary directory in '%s': set TMPDIR to "
                         "another place",
                         base && *base ? base : "/tmp");
    return KILN_OK;
}

static int send_snapshot(const char *path, bool salvage)
{
    char directory[512];
    struct snapshot taken;
    struct kiln_err err = KILN_ERR_INIT;
    die_with_parent(SIGTERM);
    enum kiln_code rc = make_directory(directory, &err);
    if (!rc) {
        take_place(directory);
        rc = snapshot_take(path, directory, salvage, &taken, &err);
        fs_remove_tree(AT_FDCWD, directory);
    }
    transfer_send_snapshot(SOCKET_FD, rc ? NULL : &taken, &err);
    if (!rc)
        close(taken.fd);
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int usage(FILE *to, int status)
{
    fprintf(to, "usage: kiln-transfer [--fleet] [--user UID:GID | --launched]\n"
                "       kiln-transfer --snapshot PATH [--salvage]\n"
                "Fetches files for kilnd and kilnctl, which start it with a socket as descriptor "
                "3.\n"
                "  --fleet          access the fleet's tree until the socket is closed\n"
                "  --user UID:GID   change to that user and group after opening files\n"
                "  --launched       a systemd unit started it, in kilnd's staging directory\n"
                "  --snapshot PATH  open one SQLite database, merge its write-ahead log, and send\n"
                "                   the descriptor\n"
                "  --salvage        tuning data: leave out damaged pages of the log\n"
                "  --version        print the version\n");
    return status;
}

static bool has_socket(void)
{
    struct stat seen;
    return fstat(SOCKET_FD, &seen) == 0 && S_ISSOCK(seen.st_mode) &&
           fcntl(SOCKET_FD, F_SETFD, FD_CLOEXEC) == 0;
}

static bool read_user(const char *text, struct transfer_user *ret_user)
{
    return sscanf(text, "%u:%u", &ret_user->uid, &ret_user->gid) == 2;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        { "snapshot", required_argument, NULL, 's' }, { "user", required_argument, NULL, 'u' },
        { "launched", no_argument, NULL, 'l' },       { "fleet", no_argument, NULL, 'f' },
        { "version", no_argument, NULL, 'V' },        { "salvage", no_argument, NULL, 'r' },
        { "help", no_argument, NULL, 'h' },           { NULL, 0, NULL, 0 },
    };
    const char *path = NULL;
    struct transfer_user user;
    bool other = false, salvage = false, fleet = false;
    for (int c; (c = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        switch (c) {
        case 's': path = optarg; break;
        case 'r': salvage = true; break;
        case 'l': is_launched = true; break;
        case 'f': fleet = true; break;
        case 'u':
            if (!read_user(optarg, &user))
                return usage(stderr, EXIT_USAGE);
            other = true;
            break;
        case 'h': return usage(stdout, 0);
        case 'V': return printf("kiln-transfer %s\n", KILN_VERSION) > 0 ? 0 : 1;
        default: return usage(stderr, EXIT_USAGE);
        }
    }
    if (optind != argc)
        return usage(stderr, EXIT_USAGE);
    if (!has_socket()) {
        fprintf(stderr, "kiln-transfer: descriptor 3 is not a socket: only kilnd and kilnctl can "
                        "start this program\n");
        return EXIT_USAGE;
    }
    closefrom(SOCKET_FD + 1); /* a malicious server must not use descriptors that kilnd inherited */
    signal(SIGPIPE, SIG_IGN); /* a server may close a connection while this process writes */
    if (fleet)
        return serve_fleet(other ? &user : NULL);
    return path ? send_snapshot(path, salvage) : serve_job(other ? &user : NULL);
}
