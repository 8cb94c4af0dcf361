/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/syscall_filter.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#define PERSONALITY_QUERY 0xffffffffu
/* The bits of a 64-bit register that an int argument has; Linux ignores the others. */
#define INT_BITS 0xffffffffu
#define CLONE_NAMESPACES                                                                          \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
     CLONE_NEWNET)
#define PRCTL_SET_VMA 0x53564d41

static void filter_auto(scmp_filter_ctx *filter)
{
    if (*filter)
        seccomp_release(*filter);
}

/* Returns 0 or a negative errno.  Skips a name that this architecture or libseccomp does not
 * have. */
static int add_rule(scmp_filter_ctx filter, uint32_t action, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);
    return number < 0 ? 0 : seccomp_rule_add(filter, action, number, 0);
}

static struct scmp_arg_cmp argument(unsigned place, uint64_t mask, uint64_t value)
{
    return (struct scmp_arg_cmp){
        .arg = place, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value
    };
}

static int add_rule_if(scmp_filter_ctx filter, uint32_t action, const char *name,
                       struct scmp_arg_cmp condition)
{
    int number = seccomp_syscall_resolve_name(name);
    return number < 0 ? 0 : seccomp_rule_add_array(filter, action, number, 1, &condition);
}

static int add_table_rules(scmp_filter_ctx filter)
{
    static const char *const allowed[] = {
#define ALLOWED(name) #name,
#define ABSENT(name)
#define FATAL(name)
#include "engine/sandbox/syscalls.def"
#undef ALLOWED
#undef ABSENT
#undef FATAL
    };
    static const struct {
        const char *name;
        uint32_t action;
    } others[] = {
#define ALLOWED(name)
#define ABSENT(name) { #name, SCMP_ACT_ERRNO(ENOSYS) },
#define FATAL(name) { #name, SCMP_ACT_KILL_PROCESS },
#include "engine/sandbox/syscalls.def"
#undef ALLOWED
#undef ABSENT
#undef FATAL
    };
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof(allowed) / sizeof(allowed[0]); i++)
        rc = add_rule(filter, SCMP_ACT_ALLOW, allowed[i]);
    for (size_t i = 0; !rc && i < sizeof(others) / sizeof(others[0]); i++)
        rc = add_rule(filter, others[i].action, others[i].name);
    return rc;
}

/* Allows only requests that query a terminal or set flags of a descriptor. Standard error may be
 * kilnd's terminal, and TIOCSTI would type commands into it. */
static int add_ioctl_rules(scmp_filter_ctx filter)
{
    static const unsigned long requests[] = { TCGETS,  TIOCGWINSZ, FIONREAD,
                                              FIONBIO, FIOCLEX,    FIONCLEX };
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof(requests) / sizeof(requests[0]); i++)
        rc = add_rule_if(filter, SCMP_ACT_ALLOW, "ioctl", argument(1, INT_BITS, requests[i]));
    return rc;
}

static int add_prctl_rules(scmp_filter_ctx filter)
{
    static const unsigned options[] = { PR_SET_NAME,         PR_GET_NAME,         PR_SET_PDEATHSIG,
                                        PR_GET_PDEATHSIG,    PR_GET_DUMPABLE,     PR_GET_SECCOMP,
                                        PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_CAPBSET_READ,
                                        PR_SET_TIMERSLACK,   PR_GET_TIMERSLACK,   PRCTL_SET_VMA };
    int rc = 0, number = seccomp_syscall_resolve_name("prctl");
    for (size_t i = 0; !rc && i < sizeof(options) / sizeof(options[0]); i++)
        rc = add_rule_if(filter, SCMP_ACT_ALLOW, "prctl", argument(0, INT_BITS, options[i]));
    /* PR_SET_DUMPABLE is allowed only with the value 0, which prevents other processes from
     * inspecting this one. */
    const struct scmp_arg_cmp off[] = { argument(0, INT_BITS, PR_SET_DUMPABLE),
                                        argument(1, UINT64_MAX, 0) };
    return rc ? rc : seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, 2, off);
}

/* Forbids open(O_RDONLY | O_TRUNC): before its third version (Linux 6.2), Landlock lets a process
 * truncate files that it may only read. For the same reason, no list allows truncate(). */
static int add_open_rules(scmp_filter_ctx filter)
{
    static const struct {
        const char *name;
        unsigned flags;
    } calls[] = { { "open", 1 }, { "openat", 2 } };
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof(calls) / sizeof(calls[0]); i++) {
        const struct scmp_arg_cmp fine[] = {
            argument(calls[i].flags, O_TRUNC, 0),
            argument(calls[i].flags, O_TRUNC | O_ACCMODE, O_TRUNC | O_WRONLY),
            argument(calls[i].flags, O_TRUNC | O_ACCMODE, O_TRUNC | O_RDWR),
        };
        for (size_t j = 0; !rc && j < sizeof(fine) / sizeof(fine[0]); j++)
            rc = add_rule_if(filter, SCMP_ACT_ALLOW, calls[i].name, fine[j]);
    }
    return rc;
}

static int add_conditional_rules(scmp_filter_ctx filter)
{
    int rc = add_rule_if(filter, SCMP_ACT_ALLOW, "clone", argument(0, CLONE_NAMESPACES, 0));
    if (!rc)
        rc = add_rule_if(filter, SCMP_ACT_ALLOW, "personality",
                         argument(0, INT_BITS, PERSONALITY_QUERY));
    if (!rc)
        rc = add_open_rules(filter);
    if (!rc)
        rc = add_ioctl_rules(filter);
    return rc ? rc : add_prctl_rules(filter);
}

/* Adds the rules, and loads the filter only if it has all of them. If an allocation fails,
 * libseccomp may omit rules and still return 0; only errno shows that. */
static int load_whole(scmp_filter_ctx filter, int (*add_rules)(scmp_filter_ctx))
{
    errno = 0;
    int rc = add_rules(filter);
    if (!rc && errno != ENOMEM)
        rc = seccomp_load(filter);
    return !rc && errno == ENOMEM ? -ENOMEM : rc;
}

static enum kiln_code install_filter(scmp_filter_ctx filter, int (*add_rules)(scmp_filter_ctx),
                                     struct kiln_err *err)
{
    int rc = filter ? 0 : -ENOMEM;
    if (!rc)
        rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    /* TSYNC applies the filter to all threads, also to those of a sanitizer, but needs seccomp(2).
     * If a service manager forbids seccomp(2), libseccomp must use prctl(2), which applies the
     * filter only to this thread. */
    if (!rc && seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) != 0)
        rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 0);
    if (!rc)
        rc = load_whole(filter, add_rules);
    if (!rc)
        return KILN_OK;
    kiln_fail_errno(err, -rc, "cannot install the system call filter (seccomp)");
    return err->code = rc == -ENOMEM ? KILN_NO_MEMORY : KILN_UNSUPPORTED;
}

static int add_compiler_rules(scmp_filter_ctx filter)
{
    int rc = add_table_rules(filter);
    return rc ? rc : add_conditional_rules(filter);
}

enum kiln_code syscall_filter_compilers(struct kiln_err *err)
{
    KILN_AUTO(filter) scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    return install_filter(filter, add_compiler_rules, err);
}

static int add_transfer_rules(scmp_filter_ctx filter)
{
    static const char *const denied[] = {
        "acct",
        "add_key",
        "adjtimex",
        "bpf",
        "chroot",
        "clock_adjtime",
        "clock_settime",
        "delete_module",
        "execve",
        "execveat",
        "fanotify_init",
        "finit_module",
        "init_module",
        "io_uring_enter",
        "io_uring_register",
        "io_uring_setup",
        "ioperm",
        "iopl",
        "kcmp",
        "kexec_file_load",
        "kexec_load",
        "keyctl",
        "lookup_dcookie",
        "mount",
        "mount_setattr",
        "move_mount",
        "name_to_handle_at",
        "open_by_handle_at",
        "open_tree",
        "perf_event_open",
        "personality",
        "pidfd_getfd",
        "pivot_root",
        "process_vm_readv",
        "process_vm_writev",
        "ptrace",
        "quotactl",
        "reboot",
        "request_key",
        "setns",
        "setpgid", /* a process that left its group would survive, because kilnd kills the group */
        "setsid",
        "settimeofday",
        "swapoff",
        "swapon",
        "syslog",
        "umount2",
        "unshare",
        "userfaultfd",
        "vhangup",
    };
    /* ENOSYS makes libraries use clone instead: the flags of clone3 are in a struct, which a filter
     * cannot read. */
    int rc = add_rule(filter, SCMP_ACT_ERRNO(ENOSYS), "clone3");
    for (size_t i = 0; !rc && i < sizeof(denied) / sizeof(denied[0]); i++)
        rc = add_rule(filter, SCMP_ACT_ERRNO(EPERM), denied[i]);
    for (unsigned flag = 1u << 7; !rc && flag; flag <<= 1) {
        if (flag & CLONE_NAMESPACES)
            rc = add_rule_if(filter, SCMP_ACT_ERRNO(EPERM), "clone", argument(0, flag, flag));
    }
    return rc;
}

enum kiln_code syscall_filter_transfers(struct kiln_err *err)
{
    KILN_AUTO(filter) scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    return install_filter(filter, add_transfer_rules, err);
}
