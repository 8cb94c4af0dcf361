/* SPDX-License-Identifier: MIT */
#include "tests/integration/numbered.h"
#include "tests/integration/steps.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LIMIT (1024u * 1024u)
/* Space that does not count towards the limit: the log's index, the tag, the lock, and the
 * directory itself. */
#define UNCOUNTED_BYTES (32768u + 3 * 4096u)
/* bytes by which the database's log may grow between two checks, because kilnd writes the last
 * uses of kernels and the saved compile time to it every ten seconds */
#define LOG_GROWTH (8 * 4096u)
#define SOLVER "ConvDirectNaive"
#define SMOKE KILN_SOURCE "/scripts/networks/smoke.txt"
#define PROBLEM(k)                                                                         \
    "conv -n 2 -c 8 -H 14 -W 13 -k " k " -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 -m conv " \
    "-g 1 -F 1 -t 1"

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
};

SET_UP(setup) { daemon_process_init(&f->daemon); }

FIXTURE(store, setup, NULL);

/* Starts kilnd without a hot set, so that it serves from disk. */
static void start_kilnd(struct fixture *f, const char *flag, const char *value)
{
    f->daemon.arguments[0] = "--hot-limit";
    f->daemon.arguments[1] = "0";
    f->daemon.arguments[2] = flag;
    f->daemon.arguments[3] = value;
    daemon_process_start(&f->daemon);
}

static void restart_kilnd(struct fixture *f, const char *flag, const char *value)
{
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    start_kilnd(f, flag, value);
}

/* Stores the kernels |from| to |to| - 1. The cache directory must never take more than |most|
 * bytes. */
static void fill_store(struct fixture *f, unsigned from, unsigned to, unsigned long long most)
{
    struct kiln_client *client = daemon_client(&f->daemon);
    for (unsigned n = from; n < to; n++) {
        assert_int_equal(numbered_fetch(client, n, NULL), KILN_TIER_COMPILED);
        assert_in_range(disk_used(f->daemon.cache), 0, most);
    }
    kiln_client_close(client);
}

static void pin_kernel(struct fixture *f, unsigned number)
{
    char key[65];
    struct kiln_client *client = daemon_client(&f->daemon);
    assert_int_equal(numbered_fetch(client, number, key), KILN_TIER_DISK);
    kiln_client_close(client);
    kilnctl_ok(f, "kernel", "pin", key);
}

static unsigned long long stored_among(struct fixture *f, unsigned all)
{
    unsigned long long count = 0;
    struct kiln_client *client = daemon_client(&f->daemon);
    for (unsigned n = 0; n < all; n++)
        count += numbered_fetch(client, n, NULL) == KILN_TIER_DISK;
    kiln_client_close(client);
    return count;
}

struct settling {
    struct fixture *f;
    unsigned all;
};

/* Returns whether kilnd has stored or evicted each of the |all| kernels, which it does after its
 * reply. */
static bool has_settled(void *context)
{
    struct settling *s = context;
    return daemon_stat(&s->f->daemon, "evictions") + daemon_stat(&s->f->daemon, "store_objects") ==
           s->all;
}

TEST_F(store, a_full_store_stays_within_its_limit_and_keeps_pinned_kernels)
{
    const unsigned first = 4, all = 44;
    start_kilnd(f, "--cache-limit", "1MiB");
    fill_store(f, 0, first, LIMIT + UNCOUNTED_BYTES);
    numbered_stored(&f->daemon, first);
    pin_kernel(f, 0);
    pin_kernel(f, 1);

    fill_store(f, first, all, LIMIT + UNCOUNTED_BYTES);

    struct settling settling = { f, all };
    wait_until("all kernels to be stored or evicted", has_settled, &settling);
    unsigned long long evictions = daemon_stat(&f->daemon, "evictions");
    assert_in_range(evictions, all - LIMIT / NUMBERED_BYTES, all - 8);
    assert_int_equal(daemon_stat(&f->daemon, "store_errors"), 0);
    assert_in_range(daemon_stat(&f->daemon, "store_taken_bytes"), LIMIT / 2, LIMIT);
    restart_kilnd(f, "--cache-limit", "1MiB");
    assert_in_range(disk_used(f->daemon.cache), LIMIT / 2, LIMIT + UNCOUNTED_BYTES);
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_DISK);
    assert_int_equal(numbered_tier(&f->daemon, 1), KILN_TIER_DISK);
    restart_kilnd(f, "--cache", "read-only");
    assert_int_equal(stored_among(f, all), all - evictions);
}

static unsigned long long reported_bytes(struct fixture *f, const char *member)
{
    KILN_AUTO(json) struct json *json = printed_json(&f->result);
    if (!json_get(json, member))
        fail_msg("no '%s' in '%s'", member, f->result.output);
    return json_get_u64(json, member, 0);
}

TEST_F(store, gc_to_a_size_leaves_that_much_and_pinned_kernels)
{
    const unsigned all = 12;
    start_kilnd(f, NULL, NULL);
    fill_store(f, 0, all, UINT64_MAX);
    numbered_stored(&f->daemon, all);
    pin_kernel(f, 3);

    kilnctl_ok(f, "gc", "--to", "300K", "--dry-run", "--json");
    assert_int_equal(reported_bytes(f, "evicted_kernels") > 0, true);
    numbered_stored(&f->daemon, all);
    kilnctl_fails(f, 2, "--yes", "gc", "--to", "300K");
    numbered_stored(&f->daemon, all);

    kilnctl_ok(f, "gc", "--to", "300K", "--yes", "--json");
    unsigned long long evicted = reported_bytes(f, "evicted_kernels");
    assert_in_range(evicted, all - 300 * 1024 / NUMBERED_BYTES, all - 1);
    assert_in_range(reported_bytes(f, "store_bytes"), 1, 300 * 1024);
    numbered_stored(&f->daemon, all - (unsigned)evicted);
    assert_in_range(disk_used(f->daemon.cache), 1, 300 * 1024 + UNCOUNTED_BYTES + LOG_GROWTH);
    assert_int_equal(numbered_tier(&f->daemon, 3), KILN_TIER_DISK);
}

/* Makes kernels look as if a compiler that is no longer installed had built them. */
static void make_stale(struct fixture *f, const char *where)
{
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    shell(f->daemon.cache,
          "sqlite3 kernels.db \"update kernel set key = randomblob(32), toolchain_id = "
          "x'0101010101010101010101010101010101010101010101010101010101010101' where %s\"",
          where);
    start_kilnd(f, NULL, NULL);
}

TEST_F(store, gc_drops_kernels_of_removed_compilers)
{
    start_kilnd(f, NULL, NULL);
    fill_store(f, 0, 3, UINT64_MAX);
    numbered_stored(&f->daemon, 3);
    make_stale(f, "id in (select id from kernel order by id limit 2)");
    kilnctl_ok(f, "toolchain", "ls");

    kilnctl_ok(f, "gc", "--stale", "--dry-run", "--json");
    assert_int_equal(reported_bytes(f, "stale_kernels"), 2);
    numbered_stored(&f->daemon, 3);
    kilnctl_ok(f, "gc", "--stale", "--yes", "--json");
    assert_int_equal(reported_bytes(f, "stale_kernels"), 2);

    numbered_stored(&f->daemon, 1);
    assert_int_equal(numbered_tier(&f->daemon, 2), KILN_TIER_DISK);
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_COMPILED);
}

TEST_F(store, a_cache_that_is_off_keeps_nothing_and_memory_serves)
{
    f->daemon.arguments[0] = "--cache";
    f->daemon.arguments[1] = "off";
    daemon_process_start(&f->daemon);
    assert_int_equal(numbered_tier(&f->daemon, 1), KILN_TIER_COMPILED);
    assert_int_equal(numbered_tier(&f->daemon, 1), KILN_TIER_HOT);
    kilnctl_fails(f, 1, "cache = on", "clear", "--all", "--yes");
    shell(f->daemon.directory, "test -z \"$(find '%s' -type f ! -name '*.lock' 2>/dev/null)\"",
          f->daemon.cache);

    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    daemon_process_start(&f->daemon);
    assert_int_equal(numbered_tier(&f->daemon, 1), KILN_TIER_COMPILED);
}

TEST_F(store, a_read_only_cache_serves_its_kernels_and_changes_nothing)
{
    start_kilnd(f, NULL, NULL);
    fill_store(f, 0, 2, UINT64_MAX);
    numbered_stored(&f->daemon, 2);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    char *before = describe_files(f->daemon.cache);
    start_kilnd(f, "--cache", "read-only");

    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_DISK);
    assert_int_equal(numbered_tier(&f->daemon, 7), KILN_TIER_COMPILED);
    assert_int_equal(numbered_tier(&f->daemon, 7), KILN_TIER_COMPILED);
    kilnctl_fails(f, 4, "cache = on", "clear", "--all", "--yes");
    kilnctl_fails(f, 4, "cache = on", "kernel", "pin", "--target", NUMBERED_TARGET);

    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    expect_files(f->daemon.cache, before);
}

static int tier_with(struct fixture *f, const char *name, const char *value, unsigned number)
{
    setenv(name, value, 1);
    int tier = numbered_tier(&f->daemon, number);
    unsetenv(name);
    return tier;
}

TEST_F(store, a_client_with_the_cache_off_neither_uses_nor_fills_it)
{
    static const char *const names[] = { "KILN_DISABLE_CACHE", "MIOPEN_DISABLE_CACHE" };
    daemon_process_start(&f->daemon);
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_COMPILED);
    numbered_stored(&f->daemon, 1);

    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(tier_with(f, names[i], "1", 0), KILN_TIER_COMPILED);
        assert_int_equal(tier_with(f, names[i], "yes", 0), KILN_TIER_COMPILED);
        assert_int_equal(tier_with(f, names[i], "1", 9), KILN_TIER_COMPILED);
        assert_int_equal(tier_with(f, names[i], "0", 0), KILN_TIER_HOT);
    }
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 1 + 2 * 3);
    assert_int_equal(daemon_stat(&f->daemon, "store_objects"), 1);

    setenv("MIOPEN_DISABLE_CACHE", "true", 1); /* a variable of MIOpen, which kilnctl honours */
    kilnctl_ok(f, "prefetch", SMOKE, "--target", "gfx90a");
    kilnctl_ok(f, "prefetch", SMOKE, "--target", "gfx90a", "--json");
    unsetenv("MIOPEN_DISABLE_CACHE");
    assert_int_equal(reported_bytes(f, "compiles"), reported_bytes(f, "kernels"));
    assert_int_equal(daemon_stat(&f->daemon, "store_objects"), 1);
    assert_int_equal(numbered_tier(&f->daemon, 9), KILN_TIER_COMPILED);
}

/* Checks the answer of `kilnctl why-miss`: |expected| lists the parts in which the nearest kernel
 * differs, such as "options, source", or is "found" if the cache has the kernel. */
static void expect_parts(struct fixture *f, const char *expected, const char *problem,
                         const char *target, const char *toolchain)
{
    char parts[512] = "";
    size_t used = 0;
    kilnctl_ok(f, "why-miss", problem, "--target", target, "--toolchain", toolchain, "--solver",
               SOLVER, "--json");
    KILN_AUTO(json) struct json *json = printed_json(&f->result);
    const struct json *answer = json_first(json_get(json, "answers"));
    const struct json *nearest = json_first(json_get(answer, "nearest"));
    const struct json *part = json_first(json_get(nearest, "different"));
    for (; part && used < sizeof(parts); part = json_next(part))
        used += (size_t)snprintf(parts + used, sizeof(parts) - used, "%s%s", used ? ", " : "",
                                 json_get_text(part, "part", "?"));
    assert_string_equal(json_get_bool(answer, "found", false) ? "found" : parts, expected);
}

TEST_F(store, why_miss_names_each_part_that_differs)
{
    start_kilnd(f, NULL, NULL);
    expect_parts(f, "", PROBLEM("16"), "gfx90a", "hiprtc");
    kilnctl_ok(f, "prefetch", SMOKE, "--target", "gfx90a", "--toolchain", "hiprtc", "--solver",
               SOLVER);
    numbered_stored(&f->daemon, 4);

    expect_parts(f, "found", PROBLEM("16"), "gfx90a", "hiprtc");
    expect_parts(f, "options", PROBLEM("32"), "gfx90a", "hiprtc");
    expect_parts(f, "features", PROBLEM("16"), "gfx90a:xnack-", "hiprtc");
    expect_parts(f, "target", PROBLEM("16"), "gfx906", "hiprtc");
    expect_parts(f, "toolchain, toolchain version", PROBLEM("16"), "gfx90a", "clang");
    make_stale(f, "1");
    expect_parts(f, "toolchain version", PROBLEM("16"), "gfx90a", "hiprtc");
}

static char *find_options(struct fixture *f)
{
    kilnctl_ok(f, "kernel", "ls", "--json");
    KILN_AUTO(json) struct json *listed = printed_json(&f->result);
    for (const struct json *j = json_first(json_get(listed, "kernels")); j; j = json_next(j)) {
        if (strstr(json_get_text(j, "options", ""), "-DKILN_K=16 "))
            return strdup(json_get_text(j, "options", ""));
    }
    fail_msg("no such kernel in '%s'", f->result.output);
    return NULL;
}

static void store_edited(struct fixture *f, const char *options)
{
    const struct kiln_header header = { .name = "kiln/prelude.h", .text = "#define EDITED 1\n" };
    const struct kiln_kernel_source edited = {
        .size = sizeof(edited),
        .target = "gfx90a",
        .toolchain = "hiprtc",
        .program = "conv_direct_naive.cl",
        .options = options,
        .source = "#include \"kiln/prelude.h\"\nextern \"C\" __global__ void f() {}\n",
        .headers = &header,
        .header_count = 1,
    };
    struct kiln_client *client = daemon_client(&f->daemon);
    struct kiln_kernel *kernel = NULL;
    struct kiln_error err = { 0 };
    must(kiln_kernel_fetch_source(client, &edited, &kernel, &err), err);
    kiln_kernel_unref(kernel);
    kiln_client_close(client);
    numbered_stored(&f->daemon, 1);
}

TEST_F(store, why_miss_names_an_edited_source_and_header)
{
    start_kilnd(f, NULL, NULL);
    kilnctl_ok(f, "prefetch", SMOKE, "--target", "gfx90a", "--toolchain", "hiprtc", "--solver",
               SOLVER);
    numbered_stored(&f->daemon, 4);
    KILN_AUTO(mem) char *options = find_options(f);
    kilnctl_ok(f, "clear", "--all", "--yes");

    store_edited(f, options);

    expect_parts(f, "source, headers", PROBLEM("16"), "gfx90a", "hiprtc");
}

TEST_F(store, why_miss_names_other_compute_units)
{
    char package[160];
    start_kilnd(f, NULL, NULL);
    snprintf(package, sizeof(package), "%s/gfx90a68.kdb", f->daemon.directory);
    kilnctl_ok(f, "pkg", "build", "--target", "gfx90a", "--db-id", "gfx90a68", "--problems", SMOKE,
               "-o", package, "--toolchain", "hiprtc");
    kilnctl_ok(f, "clear", "--all", "--yes");
    kilnctl_ok(f, "kernel", "import", package);

    kilnctl_ok(f, "why-miss", PROBLEM("16"), "--target", "gfx90a", "--db-id", "gfx90a6e", "--json");

    assert_says(f->result.output,
                "{\"part\":\"compute units\",\"wanted\":\"gfx90a6e\",\"there\":\"gfx90a68\"}");
}
