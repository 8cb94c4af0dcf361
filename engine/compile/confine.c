/* SPDX-License-Identifier: MIT */
#include "engine/compile/confine.h"

#include "engine/sandbox/landlock.h"
#include "engine/sandbox/mounts.h"
#include "engine/sandbox/syscall_filter.h"
#include "engine/sandbox/verify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define READ_FILE LANDLOCK_ACCESS_FS_READ_FILE
#define READ (READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE)
/* The lowest sufficient version of Landlock: PoCL moves files between directories, which version 1
 * forbids. */
#define VERSION_NEEDED 2

#define PROCESSES_BASE 640u
#define PROCESSES_EACH 8u
/* The maximum number of processes of all workers together, equal to TasksMax of kiln's systemd
 * slice. */
#define PROCESSES_OF_WORKERS 16384u

static void allow_named(const struct landlock_rules *rules, const char *variable)
{
    const char *value = getenv(variable);
    char *paths = value ? strdup(value) : NULL, *rest = NULL;
    for (char *p = paths ? strtok_r(paths, ":", &rest) : NULL; p; p = strtok_r(NULL, ":", &rest)) {
        if (strcmp(p, "/") != 0)
            landlock_allow(rules, p, READ);
    }
    free(paths);
}

/* Allows the worker to re-execute kiln-compiler for another toolchain. The link in /proc works even
 * if the user may not enter the directory of the program. */
static void allow_self(const struct landlock_rules *rules)
{
    landlock_allow(rules, "/proc/self/exe", READ);
}

static void allow_system(const struct landlock_rules *rules)
{
    static const char *const read[] = {
        "/usr",
        "/lib",
        "/lib32",
        "/lib64",
        "/bin",
        "/opt",
        "/nix/store",
        "/etc/OpenCL",
        "/etc/alternatives",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/ld.so.preload",
        "/dev/null",
        "/dev/zero",
        "/dev/urandom",
        "/etc/debian_version",
        "/etc/os-release",
        "/etc/lsb-release",
        /*
         * /sys is not in this list on purpose: its files describe the host's devices, such as
         * network addresses.  PoCL reads the number of processors in /sys, but works without it.
         *
         * In /proc, Landlock denies environ and similar files of processes outside the sandbox.
         */
        "/proc",
    };
    static const char *const variables[] = { "PATH", "LD_LIBRARY_PATH", "OCL_ICD_VENDORS",
                                             "KILN_CUDA_PATH", "KILN_ROCM_PATH" };
    for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++)
        landlock_allow(rules, read[i], READ);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        allow_named(rules, variables[i]);
    landlock_allow(rules, "/dev/null", READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
}

static void note_missing(struct confinement *c, enum sandbox_layer layer, const char *why)
{
    snprintf(c->reason[layer], CONFINE_REASON_MAX, "%.*s", CONFINE_REASON_MAX - 1, why);
}

static void note_errors(struct confinement *c, const struct namespace_errors *errors)
{
    static const struct {
        enum namespace_kind kind;
        enum sandbox_layer layer;
    } kinds[] = {
        { NAMESPACE_MOUNT, LAYER_mounts }, { NAMESPACE_PID, LAYER_processes },
        { NAMESPACE_PID, LAYER_proc },     { NAMESPACE_NETWORK, LAYER_network },
        { NAMESPACE_IPC, LAYER_ipc },
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (errors->of[kinds[i].kind])
            note_missing(c, kinds[i].layer, strerror(errors->of[kinds[i].kind]));
    }
}

static unsigned processes_max(void)
{
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    return PROCESSES_BASE + PROCESSES_EACH * (unsigned)(processors > 0 ? processors : 1);
}

static void mount_all(struct confinement *c, const struct namespace_errors *errors)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (errors->of[NAMESPACE_MOUNT])
        return;
    if (!errors->of[NAMESPACE_PID] && mounts_own_proc(processes_max(), &err))
        note_missing(c, LAYER_proc, err.text);
    if (mounts_read_only_but(c->options.directory, c->options.free_space, &err))
        note_missing(c, LAYER_mounts, err.text);
}

enum kiln_code confine_begin(struct confinement *c, const struct confine_options *options,
                             struct kiln_err *err)
{
    const char *outside = options->outside;
    struct namespace_errors errors;
    *c = (struct confinement){ .options = *options };
    namespaces_read(&c->outside);
    uint64_t user = c->outside.of[NAMESPACE_USER];
    if (outside && !namespaces_from_text(outside, &c->outside))
        return kiln_fail(err, KILN_INVALID, "'%s' is not a list of namespace numbers", outside);
    namespaces_leave(&c->outside, &errors);
    note_errors(c, &errors);
    enum kiln_code rc = errors.of[NAMESPACE_PID]
                            ? KILN_OK
                            : supervisor_fork(options->give_up, options->context, err);
    if (rc)
        return rc;
    mount_all(c, &errors);
    struct namespace_ids own;
    namespaces_read(&own);
    /* Since Linux 5.14, RLIMIT_NPROC counts a user's processes separately in each user
     * namespace. */
    c->has_user_namespace = own.of[NAMESPACE_USER] != user && kernel_since(5, 14);
    return KILN_OK;
}

static void confine_files(struct confinement *c)
{
    struct landlock_rules rules;
    struct kiln_err err = KILN_ERR_INIT;
    unsigned version = landlock_version();
    if (version < VERSION_NEEDED) {
        note_missing(c, LAYER_landlock, "Landlock is disabled, or older than Linux 5.19");
        return;
    }
    const struct landlock_rights handled = landlock_rights(version);
    enum kiln_code rc = landlock_begin(&handled, &rules, &err);
    if (!rc) {
        allow_system(&rules);
        allow_self(&rules);
        landlock_allow(&rules, c->options.directory, rules.handled);
        rc = landlock_enforce(&rules, &err);
    }
    if (rc)
        note_missing(c, LAYER_landlock, err.text);
    else
        c->report.landlock = version;
}

/* Limits the number of processes. RLIMIT_NPROC counts all processes of a user (setrlimit(2)). So
 * this function is called only if this user, or this user namespace, runs nothing but compilers. */
static void limit_processes(const struct confinement *c)
{
    rlim_t max = c->has_user_namespace ? processes_max() : PROCESSES_OF_WORKERS;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NPROC, &limit) != 0)
        return;
    limit.rlim_max = max < limit.rlim_max ? max : limit.rlim_max;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NPROC, &limit);
}

static void report_reasons(struct confinement *c)
{
    for (enum sandbox_layer l = 0; l < LAYERS; l++) {
        /* Only the verification decides which layers are in force: this process may have failed to
         * create a layer that, for example, a container provides. */
        if (!report_has(&c->report, l))
            report_add_reason(&c->report, l, c->reason[l][0] ? c->reason[l] : "not in force");
    }
}

enum kiln_code confine_finish(struct confinement *c, struct kiln_err *err)
{
    note_missing(c, LAYER_user, "compilers run as root");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        note_missing(c, LAYER_no_new_privileges, strerror(errno));
    confine_files(c);
    if (c->has_user_namespace || c->options.is_workers_user)
        limit_processes(c);
    verify_surroundings(&c->outside, c->options.directory, &c->report);
    enum kiln_code rc = syscall_filter_compilers(err);
    if (rc == KILN_NO_MEMORY)
        return rc;
    if (rc)
        note_missing(c, LAYER_seccomp, err->text);
    verify_filter(&c->report);
    report_reasons(c);
    return KILN_OK;
}
