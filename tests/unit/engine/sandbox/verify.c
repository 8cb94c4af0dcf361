/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/verify.h"

#include "common/base/fs.h"
#include "engine/sandbox/capabilities.h"
#include "engine/sandbox/mounts.h"
#include "tests/support/child.h"
#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    const char *directory;
    const char *other;
};

SET_UP(set_up)
{
    f->directory = test_directory();
    f->other = test_subdirectory(f->directory, "a directory");
}

FIXTURE(verify, set_up, NULL);

#define EXIT_NOT_ALLOWED 77 /* this host does not let the child set up the case */

/* Runs |check| in a child process that has new namespaces. Skips the test if the host refuses
 * them. */
static int check_in_child(struct fixture *f, int flags, int (*check)(struct fixture *))
{
    int status = 1;
    pid_t child = has_capability(CAP_SYS_ADMIN) ? fork() : -1;
    if (child == 0) {
        if (unshare(flags | CLONE_NEWNS) != 0 ||
            mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) != 0)
            _exit(EXIT_NOT_ALLOWED);
        _exit(check(f));
    }
    if (child > 0)
        status = await_child(child);
    SKIP_IF(child < 0 || WEXITSTATUS(status) == EXIT_NOT_ALLOWED, "this host gives no namespaces");
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool has_layer(enum sandbox_layer layer, const char *directory)
{
    const struct namespace_ids outside = { .of = { 1, 2, 3, 4, 5 } };
    struct sandbox_report report = { 0 };
    verify_surroundings(&outside, directory, &report);
    return report_has(&report, layer);
}

static int check_mounts(struct fixture *f)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (has_layer(LAYER_mounts, f->directory))
        return 1;
    if (mounts_read_only_but(f->directory, 0, &err))
        return EXIT_NOT_ALLOWED;
    if (!has_layer(LAYER_mounts, f->directory))
        return 2;
    if (has_layer(LAYER_mounts, "/another"))
        return 3;
    if (mount("none", f->other, "tmpfs", 0, NULL) != 0)
        return EXIT_NOT_ALLOWED;
    if (has_layer(LAYER_mounts, f->directory))
        return 4;
    if (mount(NULL, f->other, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0)
        return EXIT_NOT_ALLOWED;
    if (!has_layer(LAYER_mounts, f->directory))
        return 5;
    fail_calls("realloc", ENOMEM);
    return has_layer(LAYER_mounts, f->directory) ? 6 : 0;
}

TEST(verify, every_mount_but_the_directory_is_checked)
{
    assert_int_equal(check_in_child(*state, 0, check_mounts), 0);
}

static int check_a_directory_with_a_space(struct fixture *f)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (mounts_read_only_but(f->other, 0, &err))
        return EXIT_NOT_ALLOWED;
    return has_layer(LAYER_mounts, f->other) ? 0 : 1;
}

TEST(verify, the_writable_directory_may_have_a_space_in_its_name)
{
    assert_int_equal(check_in_child(*state, 0, check_a_directory_with_a_space), 0);
}

TEST_F(verify, the_namespaces_of_the_host_do_not_count_as_private)
{
    static const enum sandbox_layer layers[NAMESPACES] = {
        [NAMESPACE_MOUNT] = LAYER_mounts,
        [NAMESPACE_PID] = LAYER_processes,
        [NAMESPACE_NETWORK] = LAYER_network,
        [NAMESPACE_IPC] = LAYER_ipc,
    };
    struct namespace_ids own;
    assert_true(namespace_is_hosts(0xeffffffc) && namespace_is_hosts(0xefffffff));
    assert_false(namespace_is_hosts(0xf0000000) || namespace_is_hosts(0));
    namespaces_read(&own);
    for (enum namespace_kind k = NAMESPACE_MOUNT; k < NAMESPACES; k++) {
        if (namespace_is_hosts(own.of[k]))
            assert_false(has_layer(layers[k], f->directory));
    }
}

static bool set_loopback_up(void)
{
    struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool done = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        close(fd);
    return done;
}

static int check_a_new_network(struct fixture *f)
{
    return network_is_empty() && set_loopback_up() && network_is_empty() &&
                   has_layer(LAYER_network, f->directory)
               ? 0
               : 1;
}

TEST(verify, a_new_network_is_empty_also_with_a_loopback)
{
    assert_int_equal(check_in_child(*state, CLONE_NEWNET, check_a_new_network), 0);
}

TEST_F(verify, a_network_with_an_address_or_a_route_is_not_empty)
{
    char routes[80], addresses[80];
    snprintf(routes, sizeof(routes), "%s/routes", f->directory);
    snprintf(addresses, sizeof(addresses), "%s/addresses", f->directory);
    test_write_text(routes, "Iface\tDestination\tGateway\n");
    assert_true(network_is_empty_by(routes, addresses)); /* a system without IPv6 */
    test_write_text(addresses, "00000000000000000000000000000001 01 80 10 80       lo\n");
    assert_true(network_is_empty_by(routes, addresses));
    test_write_text(addresses, "00000000000000000000000000000001 01 80 10 80       lo\n"
                               "fe800000000000000000000000000001 04 40 20 80     eth0\n");
    assert_false(network_is_empty_by(routes, addresses));
    test_write_text(addresses, "");
    test_write_text(routes, "Iface\tDestination\tGateway\neth0\t000200C0\t00000000\n");
    assert_false(network_is_empty_by(routes, addresses));
    assert_false(network_is_empty_by(f->directory, addresses)); /* unreadable */
}
