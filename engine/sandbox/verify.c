/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/verify.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/sandbox/landlock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Addresses that no network uses (RFC 5737, RFC 3849). Connecting a datagram socket to them sends
 * nothing; Linux only looks for a route. */
#define SOMEWHERE "192.0.2.1"
#define SOMEWHERE_6 "2001:db8::1"
#define ANY_PORT 9
#define MOUNTS_MAX (4u << 20)

static void note_layer(struct sandbox_report *report, enum sandbox_layer layer, bool has)
{
    report->has = has ? report->has | 1u << layer : report->has & ~(1u << layer);
}

static bool status_number(const char *name, int base, uint64_t *ret_number)
{
    char line[256];
    size_t length = strlen(name);
    FILE *file = fopen("/proc/self/status", "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof(line), file)) {
        found = strncmp(line, name, length) == 0 && line[length] == ':';
        if (found)
            *ret_number = strtoull(line + length + 1, NULL, base);
    }
    if (file)
        fclose(file);
    return found;
}

static bool has_no_capability(void)
{
    static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        uint64_t bits = 1;
        if (!status_number(sets[i], 16, &bits) || bits != 0)
            return false;
    }
    return true;
}

static bool is_set(const char *name, uint64_t wanted)
{
    uint64_t value = 0;
    return status_number(name, 10, &value) && value == wanted;
}

static bool shows_own_processes(void)
{
    char seen[32], own[32];
    ssize_t size = readlink("/proc/self", seen, sizeof(seen) - 1);
    if (size < 0)
        return false;
    seen[size] = '\0';
    snprintf(own, sizeof(own), "%d", (int)getpid());
    return strcmp(seen, own) == 0;
}

static bool has_no_route(int family, const struct sockaddr *address, socklen_t size)
{
    KILN_AUTO(fd) int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd < 0 || connect(fd, address, size) != 0;
}

static bool reaches_no_network(void)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(ANY_PORT) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(ANY_PORT) };
    inet_pton(AF_INET, SOMEWHERE, &four.sin_addr);
    inet_pton(AF_INET6, SOMEWHERE_6, &six.sin6_addr);
    return has_no_route(AF_INET, (const struct sockaddr *)&four, sizeof(four)) &&
           has_no_route(AF_INET6, (const struct sockaddr *)&six, sizeof(six));
}

static void undo_escapes(char *text)
{
    char *to = text;
    for (const char *at = text; *at;) {
        bool is_escape = at[0] == '\\' && at[1] && at[2] && at[3];
        *to++ = is_escape ? (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0')) : at[0];
        at += is_escape ? 4 : 1;
    }
    *to = '\0';
}

/* Returns whether a mount is writable, and its mount point. |line| is a line of mountinfo: "ID
 * PARENT DEVICE ROOT MOUNT-POINT OPTIONS ..." (proc(5)). A malformed line counts as writable. */
static bool is_writable(char *line, const char **ret_place)
{
    char *rest = NULL, *place = strtok_r(line, " ", &rest);
    for (unsigned i = 0; place && i < 4; i++)
        place = strtok_r(NULL, " ", &rest);
    const char *options = place ? strtok_r(NULL, " ", &rest) : NULL;
    if (!options)
        return true;
    undo_escapes(place);
    *ret_place = place;
    return strcmp(options, "ro") != 0 && strncmp(options, "ro,", 3) != 0;
}

static bool directory_alone_is_writable(const char *directory)
{
    BUFFER_AUTO struct buffer text;
    struct kiln_err ignored = KILN_ERR_INIT;
    buffer_init(&text, MOUNTS_MAX);
    enum kiln_code rc = fs_read_file("/proc/self/mountinfo", MOUNTS_MAX - 1, &text, &ignored);
    buffer_put_u8(&text, '\0');
    bool alone = !rc && !text.failed;
    char *rest = NULL, *line = alone ? strtok_r((char *)text.data, "\n", &rest) : NULL;
    for (; alone && line; line = strtok_r(NULL, "\n", &rest)) {
        const char *place = "";
        alone = !is_writable(line, &place) || strcmp(place, directory) == 0;
    }
    return alone;
}

/* Tests whether Landlock is in force: without it, every user may list "/". */
static bool cannot_list_root(void)
{
    KILN_AUTO(fd) int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 && errno == EACCES;
}

void verify_surroundings(const struct namespace_ids *outside, const char *directory,
                         struct sandbox_report *report)
{
    struct namespace_ids own;
    bool is_private[NAMESPACES];
    namespaces_read(&own);
    for (size_t i = 0; i < NAMESPACES; i++)
        is_private[i] =
            own.of[i] != 0 && own.of[i] != outside->of[i] && !namespace_is_hosts(own.of[i]);
    note_layer(report, LAYER_user, getuid() != 0 && geteuid() != 0);
    note_layer(report, LAYER_capabilities, has_no_capability());
    note_layer(report, LAYER_no_new_privileges, is_set("NoNewPrivs", 1));
    note_layer(report, LAYER_mounts,
               is_private[NAMESPACE_MOUNT] && directory_alone_is_writable(directory));
    note_layer(report, LAYER_processes, is_private[NAMESPACE_PID]);
    note_layer(report, LAYER_proc, is_private[NAMESPACE_PID] && shows_own_processes());
    note_layer(report, LAYER_network,
               is_private[NAMESPACE_NETWORK] && network_is_empty() && reaches_no_network());
    note_layer(report, LAYER_ipc, is_private[NAMESPACE_IPC]);
    note_layer(report, LAYER_landlock, report->landlock > 0 && cannot_list_root());
}

static bool is_denied(long result) { return result < 0 && errno == EPERM; }

/* Makes system calls that the filter denies. Without the filter, each call would succeed or fail
 * with another errno. */
void verify_filter(struct sandbox_report *report)
{
    bool denied =
        is_denied(syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) &&
        is_denied(syscall(SYS_ptrace, PTRACE_PEEKDATA, getpid(), 0, 0)) &&
        is_denied(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0)) &&
        is_denied(syscall(SYS_unshare, 0));
    note_layer(report, LAYER_seccomp, denied && is_set("Seccomp", SECCOMP_MODE_FILTER));
}
