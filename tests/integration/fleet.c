/* SPDX-License-Identifier: MIT */
/* One host compiles kernels and adds them to the fleet's tree. Other hosts, whose caches are empty,
 * take the kernels from the tree: from a directory, and from a web server that fails in several
 * ways. */
#include "tests/integration/steps.h"
#include "tests/support/nginx.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TARGET "gfx90a:sramecc+:xnack-"
#define URL_TEXT 200
#define MEASURED "conv -n 1 -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 -F 1"
#define MEASURED_ID "gfx90a68"
#define MEASURED_KEY "64-56-56-1x1-64-56-56-1-0x0-1x1-1x1-0-NCHW-FP32-F"
#define MEASURED_VALUE "ConvBinWinogradRxSf2x3g1:0.05,0,miopenConvolutionFwdAlgoWinograd"

struct site {
    struct daemon_process daemon;
    struct program_result result;
    char fleet[URL_TEXT];
};

/* the directory of this host also contains the tree, the keys and the problems */
static struct site builder;
static char tree[128], keys[128], problems[128];
static unsigned long long kernel_count;

static void prefetch(struct site *s, const char *file)
{
    kilnctl_ok(s, "prefetch", file, "--target", TARGET, "--json");
}

/* Gives the builder's host tier a record of MEASURED. */
static void measure(void)
{
    shell(builder.daemon.directory,
          "echo '" MEASURED_KEY "=" MEASURED_VALUE "' >" MEASURED_ID ".HIP.fdb.txt");
    char file[160];
    snprintf(file, sizeof(file), "%s/" MEASURED_ID ".HIP.fdb.txt", builder.daemon.directory);
    kilnctl_ok(&builder, "db", "merge", file, "--tier", "host");
}

static void add_to_tree(void)
{
    char key[160];
    measure();
    snprintf(key, sizeof(key), "%s/builder.key", builder.daemon.directory);
    kilnctl_ok(&builder, "fleet", "push", "--key", key, tree);
    kilnctl_ok(&builder, "fleet", "compact", "--key", key, "--trust", keys, tree);
}

static int fill_tree(void **state)
{
    (void)state;
    daemon_process_init(&builder.daemon);
    const char *directory = builder.daemon.directory;
    snprintf(tree, sizeof(tree), "%s/tree", directory);
    snprintf(keys, sizeof(keys), "%s/keys", directory);
    snprintf(problems, sizeof(problems), "%s/problems", directory);
    shell(directory, "mkdir keys tree && grep '^conv ' " KILN_SOURCE
                     "/scripts/networks/smoke.txt | head -n 2 >problems");
    daemon_process_start(&builder.daemon);
    kilnctl_ok(&builder, "pkg", "keygen", "builder", "--directory", directory);
    shell(directory, "sed 's/^{/{\"targets\":\"gfx90a\",\"index\":true,/' builder.pub "
                     ">keys/builder.pub");
    prefetch(&builder, problems);
    kernel_count = daemon_stat(&builder.daemon, "compiles");
    add_to_tree();
    assert_int_equal(daemon_process_stop(&builder.daemon), 0);
    return 0;
}

TEST_PROGRAM(fill_tree, NULL)

struct journey {
    struct site host;
    struct nginx nginx;
};

SET_UP_OF(set_up, struct journey) { daemon_process_init(&f->host.daemon); }
FIXTURE_OF(fleet, struct journey, set_up, NULL);

static void start_with(struct site *s, const char *url)
{
    snprintf(s->fleet, sizeof(s->fleet), "%s", url);
    const char *const arguments[] = { "--fleet", s->fleet,       "--fleet-keys",
                                      keys,      "--fleet-wait", "30s" };
    memcpy(s->daemon.arguments, arguments, sizeof(arguments));
    daemon_process_start(&s->daemon);
}

static void start_with_directory(struct site *s)
{
    char url[URL_TEXT];
    snprintf(url, sizeof(url), "file://%s", tree);
    start_with(s, url);
}

static void start_with_server(struct journey *f)
{
    char url[URL_TEXT];
    SKIP_IF(!nginx_start(&f->nginx, f->host.daemon.directory, tree, NULL, NULL), "no nginx here");
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", f->nginx.port);
    start_with(&f->host, url);
}

static void expect_all_from_fleet(struct site *s)
{
    assert_int_equal(daemon_stat(&s->daemon, "compiles"), 0);
    assert_true(daemon_stat(&s->daemon, "hits.fleet") >= kernel_count);
}

TEST_F(fleet, kernels_come_from_a_directory)
{
    start_with_directory(&f->host);
    prefetch(&f->host, problems);
    expect_all_from_fleet(&f->host);
}

TEST_F(fleet, kernels_come_from_a_web_server_by_ranges)
{
    start_with_server(f);
    prefetch(&f->host, problems);
    expect_all_from_fleet(&f->host);
    assert_int_equal(nginx_answers(&f->nginx, 200, 2), 2);
    assert_in_range(nginx_answers(&f->nginx, 206, 1), 1, kernel_count);
}

TEST_F(fleet, a_kernel_of_the_fleet_is_served_from_the_disk_after_a_restart)
{
    start_with_directory(&f->host);
    prefetch(&f->host, problems);
    assert_int_equal(daemon_process_stop(&f->host.daemon), 0);
    start_with(&f->host, "");
    prefetch(&f->host, problems);
    assert_int_equal(daemon_stat(&f->host.daemon, "compiles"), 0);
    assert_int_equal(daemon_stat(&f->host.daemon, "hits.fleet"), 0);
}

TEST_F(fleet, kernels_that_were_pulled_are_in_the_store)
{
    start_with_directory(&f->host);
    kilnctl_ok(&f->host, "fleet", "pull", "--target", TARGET);
    kilnctl_ok(&f->host, "fleet", "status");
    prefetch(&f->host, problems);
    assert_int_equal(daemon_stat(&f->host.daemon, "compiles"), 0);
    assert_int_equal(daemon_stat(&f->host.daemon, "hits.fleet"), 0);
}

static bool has_measured(struct site *s)
{
    kilnctl(s, "db", "get", MEASURED, "--db-id", MEASURED_ID);
    return s->result.status == 0;
}

TEST_F(fleet, tuning_records_of_another_host_are_found_and_exported)
{
    start_with_directory(&f->host);
    WAIT_FOR(has_measured(&f->host));
    assert_non_null(strstr(f->host.result.output, "fleet:"));
    kilnctl_ok(&f->host, "db", "export", f->host.daemon.directory, "--db-id", MEASURED_ID, "--tier",
               "host");
    shell(f->host.daemon.directory, "grep -q '" MEASURED_VALUE "' " MEASURED_ID ".HIP.fdb.txt");
}

static void expect_all_compiled(struct site *s)
{
    assert_int_equal(daemon_stat(&s->daemon, "compiles"), kernel_count);
    assert_int_equal(daemon_stat(&s->daemon, "compile_errors"), 0);
    assert_int_equal(daemon_stat(&s->daemon, "hits.fleet"), 0);
}

TEST_F(fleet, without_a_server_kernels_are_compiled)
{
    start_with_server(f);
    nginx_stop(&f->nginx);
    prefetch(&f->host, problems);
    expect_all_compiled(&f->host);
}

TEST_F(fleet, a_tree_without_an_index_is_a_miss)
{
    char url[URL_TEXT];
    snprintf(url, sizeof(url), "file://%s", keys);
    start_with(&f->host, url);
    prefetch(&f->host, problems);
    expect_all_compiled(&f->host);
}

static pid_t find_reader(const struct site *s)
{
    KILN_AUTO(mem)
    char *text = shell_text("/", "ps --ppid %d -o pid=,args= | awk '/--fleet/ { print $1 }'",
                            (int)s->daemon.pid);
    return (pid_t)strtol(text, NULL, 10);
}

TEST_F(fleet, the_process_is_started_again_after_it_was_killed)
{
    char first[160], rest[160];
    snprintf(first, sizeof(first), "%s/first", f->host.daemon.directory);
    snprintf(rest, sizeof(rest), "%s/rest", f->host.daemon.directory);
    shell(f->host.daemon.directory, "grep '^conv' '%s' | head -n 1 >first", problems);
    shell(f->host.daemon.directory, "grep '^conv' '%s' | tail -n +2 >rest", problems);
    start_with_directory(&f->host);
    prefetch(&f->host, first);
    pid_t reader = find_reader(&f->host);
    assert_true(reader > 1);
    assert_int_equal(kill(reader, SIGKILL), 0);
    WAIT_FOR(find_reader(&f->host) == 0);
    prefetch(&f->host, rest);
    expect_all_from_fleet(&f->host);
}
