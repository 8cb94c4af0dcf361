/* SPDX-License-Identifier: MIT */
/* Packages are built without a GPU, signed, fetched over a connection that breaks, refused if
 * anything is wrong, and served by a kilnd without compilers.
 *
 * KILN_TEST_NETWORK names another file of problems. ResNet-50's file takes a minute. */
#include "tests/integration/package_site.h"
#include "tests/support/test_files.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KDB "gfx906_60.kdb"
#define OTHER_KDB "gfx90a68.kdb"
#define KPKG "gfx90a68.kpkg"

static const struct product packages_built[] = {
    { KDB, "gfx906", "gfx906_60" },
    { OTHER_KDB, "gfx90a", "gfx90a68" },
    { KPKG, "gfx90a", "gfx90a68" },
};

static struct site builder; /* builds the packages once for all tests */

static const char *network_file(void)
{
    const char *named = getenv("KILN_TEST_NETWORK");
    return named ? named : KILN_SOURCE "/scripts/networks/smoke.txt";
}

SET_UP_STATIC(build_all)
{
    /* manifests contain this time instead of the current one, so that two builds are equal */
    setenv("SOURCE_DATE_EPOCH", "1764288000", /* overwrite= */ 1);
    site_open(&builder);
    site_build_all(&builder, packages_built, sizeof(packages_built) / sizeof(packages_built[0]),
                   network_file());
}

TEST_PROGRAM(build_all, NULL)

SET_UP_OF(setup, struct site)
{
    site_open(f);
    shell(f->files, "cp '%s'/* . && cp ops.pub '%s'", builder.files, f->keys);
}

FIXTURE_OF(packages, struct site, setup, NULL);

static void start_with(struct site *f, const char *flag, const char *value)
{
    f->daemon.arguments[2] = flag;
    f->daemon.arguments[3] = value;
    daemon_process_start(&f->daemon);
}

TEST_F(packages, the_same_inputs_make_the_same_bytes)
{
    unsigned long long kernels = 0;
    shell(f->files, "mkdir first && mv gfx* first");
    /* This kilnd's cache is empty, so it compiles all kernels again. With a single worker, it does
     * so in another order than the kilnd that built the first packages. */
    start_with(f, "--workers", "1");

    for (size_t i = 0; i < sizeof(packages_built) / sizeof(packages_built[0]); i++) {
        kernels += site_build(f, &packages_built[i], network_file());
        shell(f->files, "cmp first/%s %s && cmp first/%s.manifest %s.manifest",
              packages_built[i].file, packages_built[i].file, packages_built[i].file,
              packages_built[i].file);
    }

    assert_true(daemon_stat(&f->daemon, "compiles") > 0);
    /* The two gfx90a packages share kernels, which are compiled once. */
    assert_true(daemon_stat(&f->daemon, "compiles") < kernels);
}

TEST_F(packages, a_built_kdb_is_a_database_of_miopens)
{
    shell_says("ok", f->files, "sqlite3 " KDB " 'pragma integrity_check'");
    shell_says("id kernel_name kernel_args kernel_blob kernel_hash uncompressed_size", f->files,
               "sqlite3 " KDB " \"select group_concat(name, ' ') from "
               "pragma_table_info('kern_db')\"");
    shell_says("idx_kern_db 1 kernel_name,kernel_args", f->files,
               "sqlite3 " KDB " \"select name || ' ' || [unique] || ' ' || (select "
               "group_concat(name) from pragma_index_info('idx_kern_db')) from "
               "pragma_index_list('kern_db')\"");
    /* Bytes 18 and 19 are 1: the database is not in WAL mode, which would need a writable disk. */
    shell_says(" 01 01", f->files, "od -An -tx1 -j18 -N2 " KDB);
    shell_says("0", f->files,
               "sqlite3 " KDB " \"select count(*) from kern_db where kernel_args not like "
               "'%%-mcpu=gfx906' or kernel_name not like '%%.o'\"");
    shell(f->files,
          "set -e; mkdir raw; sqlite3 " KDB " \"select writefile('raw/' || id || '.bz2', "
          "kernel_blob) from kern_db\" >/dev/null; bzip2 -d raw/*; cd raw; "
          "sqlite3 ../" KDB " \"select kernel_hash || '  ' || id from kern_db\" >sums; "
          "md5sum --quiet -c sums; for o in [0-9]*; do test $(stat -c %%s $o) = "
          "$(sqlite3 ../" KDB " \"select uncompressed_size from kern_db where id = $o\"); done");
}

static void restart_without_compilers(struct site *f)
{
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    shell(f->daemon.directory, "rm -r '%s'", f->daemon.cache);
    start_with(f, "--workers", "0");
}

static void prefetch_all(struct site *f, const char *target, const char *database_id)
{
    kilnctl(f, "prefetch", network_file(), "--target", target, "--db-id", database_id, "--json");
}

static void expect_served_by_packages(struct site *f, const struct product *p)
{
    unsigned long long before = daemon_stat(&f->daemon, "hits.package");
    unsigned long long fetches = daemon_stat(&f->daemon, "fetches");
    prefetch_all(f, p->target, p->database_id);
    expect_status(&f->result, 0, "");
    KILN_AUTO(json) struct json *done = printed_json(&f->result);
    unsigned long long kernels = json_get_u64(done, "kernels", 0);
    assert_true(kernels > 0);
    assert_int_equal(json_get_u64(done, "compiles", 99), 0);
    assert_int_equal(json_get_u64(json_get(done, "hits_by_tier"), "package", 0), kernels);
    assert_true(daemon_stat(&f->daemon, "hits.package") - before >= kernels);
    /* More fetches than kernels are possible, because problems may share kernels. */
    assert_true(daemon_stat(&f->daemon, "fetches") - fetches >= kernels);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
    assert_int_equal(daemon_stat(&f->daemon, "misses"), 0);
}

static void expect_nothing_served(struct site *f, const struct product *p)
{
    prefetch_all(f, p->target, p->database_id);
    expect_status(&f->result, 1, "'workers'");
}

static void expect_downloads(struct site *f, const char *result, unsigned count)
{
    char series[120];
    snprintf(series, sizeof(series),
             "\nkiln_remote_requests_total{tier=\"package\",op=\"download\",result=\"%s\"} ",
             result);
    kilnctl_ok(f, "metrics");
    const char *line = strstr(f->result.output, series);
    if (!line || strtoul(line + strlen(series), NULL, 10) != count)
        fail_msg("not %u '%s' but %.90s", count, result, line ? line + 1 : "none");
}

TEST_F(packages, packages_from_urls_serve_a_host_without_compilers)
{
    site_serve(f, f->files);
    daemon_process_start(&f->daemon);
    cut_line_start(&f->line, f->nginx.port, 2, site_file_size(f, KDB) / 3);

    kilnctl_ok(f, "pkg", "install", site_url(f->line.script.port, KDB));
    assert_says(f->result.output, "'ops'");
    cut_line_stop(&f->line);
    assert_int_equal(f->line.cuts, 0);
    assert_int_equal(nginx_answers(&f->nginx, 206, 2), 2);
    kilnctl_ok(f, "pkg", "install", site_url(f->nginx.port, OTHER_KDB));
    shell(f->daemon.state,
          "cmp packages/" KDB " '%s'/" KDB " && cmp packages/" OTHER_KDB " '%s'/" OTHER_KDB
          " && test -z \"$(ls packages/incoming)\"",
          f->files, f->files);

    expect_downloads(f, "ok", 2); /* each resumed download counts once */

    restart_without_compilers(f);
    expect_served_by_packages(f, &packages_built[0]);
    expect_served_by_packages(f, &packages_built[1]);

    kilnctl_ok(f, "pkg", "rm", KDB);
    expect_nothing_served(f, &packages_built[0]);
    kilnctl_ok(f, "pkg", "ls");
    assert_null(strstr(f->result.output, KDB));
    prefetch_all(f, "gfx90a", "gfx90a68");
    expect_status(&f->result, 0, "");
}

TEST_F(packages, a_package_in_kilns_format_serves_as_well)
{
    daemon_process_start(&f->daemon);
    kilnctl_ok(f, "pkg", "install", site_file(f, KPKG));
    kilnctl_ok(f, "pkg", "verify", KPKG);
    restart_without_compilers(f);
    expect_served_by_packages(f, &packages_built[2]);
    kilnctl_ok(f, "pkg", "rm", KPKG);
    expect_nothing_served(f, &packages_built[2]);
}

TEST_F(packages, a_package_for_other_compute_units_does_not_apply)
{
    const struct product other = { .target = "gfx90a", .database_id = "gfx90a6e" };
    start_with(f, "--workers", "0");
    kilnctl_ok(f, "pkg", "install", site_file(f, OTHER_KDB));
    expect_nothing_served(f, &other);

    /* A package that names only the arch applies to all targets of that arch. */
    shell(f->files, "cp " OTHER_KDB " gfx90a.kdb");
    kilnctl_ok(f, "pkg", "sign", "--key", site_file(f, "ops.key"), site_file(f, "gfx90a.kdb"));
    kilnctl_ok(f, "pkg", "install", site_file(f, "gfx90a.kdb"));
    expect_served_by_packages(f, &other);
}

TEST_F(packages, a_client_with_the_cache_off_takes_nothing_from_packages)
{
    start_with(f, "--workers", "0");
    kilnctl_ok(f, "pkg", "install", site_file(f, KDB));
    setenv("MIOPEN_DISABLE_CACHE", "1", 1);
    expect_nothing_served(f, &packages_built[0]);
    unsetenv("MIOPEN_DISABLE_CACHE");
    setenv("KILN_DISABLE_CACHE", "enable", 1);
    expect_nothing_served(f, &packages_built[0]);
    unsetenv("KILN_DISABLE_CACHE");
    prefetch_all(f, packages_built[0].target, packages_built[0].database_id);
    expect_status(&f->result, 0, "");
}

/* Returns the offset of the first digit from |at| on. A test changes this digit with
 * site_flip_byte, which makes it another digit, so that the manifest remains well-formed. */
static size_t digit_from(const struct site *f, const char *name, size_t at)
{
    FILE *file = fopen(site_file(f, name), "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    for (int byte = fgetc(file); byte < '0' || byte > '9'; byte = fgetc(file), at++)
        assert_true(byte != EOF && byte != '"');
    assert_int_equal(fclose(file), 0);
    return at;
}

static size_t place_of(const struct site *f, const char *name, const char *text)
{
    KILN_AUTO(mem) char *found = shell_text(f->files, "grep -abo '%s' %s", text, name);
    return (size_t)strtoul(found, NULL, 10);
}

/* kilnctl exits with 1 for a damaged package, and with 4 for a missing or wrong signature. */
static void expect_refused(struct site *f, const char *from, const char *words)
{
    char *before = describe_files(f->daemon.state);
    kilnctl(f, "pkg", "install", from);
    assert_true(f->result.status == 1 || f->result.status == 4);
    assert_says(f->result.output, words);
    expect_files(f->daemon.state, before);
}

TEST_F(packages, a_bad_download_is_refused_and_leaves_nothing)
{
    site_serve(f, f->files);
    start_with(f, "--workers", "0");
    const char *from = site_url(f->nginx.port, KDB);
    size_t middle = site_file_size(f, KDB) / 2;
    size_t digits = place_of(f, KDB ".manifest", "sha256") + strlen("sha256\\\":\\\"");
    size_t signature = place_of(f, KDB ".manifest", "\"signature\"") + 20;
    digits = digit_from(f, KDB ".manifest", digits);
    signature = digit_from(f, KDB ".manifest", signature);

    site_flip_byte(f, KDB, middle);
    expect_refused(f, from, "manifest");
    site_flip_byte(f, KDB, middle);

    site_flip_byte(f, KDB ".manifest", digits);
    expect_refused(f, from, "signature");
    site_flip_byte(f, KDB ".manifest", digits);

    site_flip_byte(f, KDB ".manifest", signature);
    expect_refused(f, from, "signature");
    site_flip_byte(f, KDB ".manifest", signature);

    kilnctl_ok(f, "pkg", "sign", "--key", site_file(f, "stranger.key"), site_file(f, KDB));
    expect_refused(f, from, "key");
    expect_nothing_served(f, &packages_built[0]);

    shell(f->keys, "cp '%s' .", site_file(f, "stranger.pub"));
    kilnctl_ok(f, "pkg", "install", from);
    assert_says(f->result.output, "'stranger'");
    kilnctl_ok(f, "pkg", "install", from); /* fetches the unchanged package again */

    kilnctl(f, "pkg", "install", site_url(f->nginx.port, "gfx906_64.kdb"));
    assert_int_not_equal(f->result.status, 0);
    expect_downloads(f, "ok", 2);
    expect_downloads(f, "corrupt", 1);
    expect_downloads(f, "denied", 3);
    expect_downloads(f, "not_found", 1);
}

TEST_F(packages, each_flipped_byte_is_noticed_and_the_old_package_stays)
{
    start_with(f, "--workers", "0");
    kilnctl_ok(f, "pkg", "install", site_file(f, KDB));
    size_t size = site_file_size(f, KDB);
    for (size_t i = 0; i < 16; i++) {
        size_t at = (size - 1) * i / 15;
        site_flip_byte(f, KDB, at);
        expect_refused(f, site_file(f, KDB), "SHA-256");
        site_flip_byte(f, KDB, at);
    }
    KILN_AUTO(mem) char *manifest = shell_text(f->files, "cat " KDB ".manifest");
    for (size_t at = 0; manifest[at]; at += 5) {
        at += strspn(manifest + at, " \t\n");
        if (!manifest[at])
            break;
        site_flip_byte(f, KDB ".manifest", at);
        expect_refused(f, site_file(f, KDB), "manifest");
        site_flip_byte(f, KDB ".manifest", at);
    }
    expect_served_by_packages(f, &packages_built[0]);
}

/* Reads up to the first line that contains |word|, or to the end if |word| is NULL. */
static void read_until(FILE *stream, const char *word)
{
    char line[4096];
    while (fgets(line, sizeof(line), stream)) {
        if (word && strstr(line, word))
            return;
    }
}

TEST_F(packages, a_kilnd_killed_while_it_fetches_leaves_no_trace)
{
    int fd;
    site_serve(f, f->files);
    start_with(f, "--workers", "0");
    char *before = describe_files(f->daemon.state);
    /* cuts every answer at the same byte, so that the download never gets further */
    cut_line_start(&f->line, f->nginx.port, 1000, 5000);
    pid_t install = start_program(&f->daemon, &fd, "kilnctl", "pkg", "install",
                                  site_url(f->line.script.port, KDB), NULL);
    FILE *reported = fdopen(fd, "r");
    IN_TIME(read_until(reported, "fetching"));
    shell(f->daemon.state, "test -n \"$(ls packages/incoming)\"");

    daemon_process_kill(&f->daemon);
    IN_TIME(read_until(reported, NULL));
    fclose(reported);
    assert_int_equal(wait_program(install), 3);
    daemon_process_start(&f->daemon);

    expect_files(f->daemon.state, before);
    kilnctl_ok(f, "pkg", "ls", "--json");
    assert_says(f->result.output, "\"packages\":[]");
}

struct listing {
    struct site *f;
    const char *name;
    bool wanted;
};

static bool is_as_wanted(void *context)
{
    struct listing *l = context;
    kilnctl_ok(l->f, "pkg", "ls", "--json");
    KILN_AUTO(json) struct json *reported = printed_json(&l->f->result);
    KILN_AUTO(mem) char *used = json_print(json_get(reported, "packages"), false);
    return (strstr(used, l->name) != NULL) == l->wanted;
}

static void expect_listed(struct site *f, const char *name, bool wanted)
{
    struct listing listing = { f, name, wanted };
    if (!holds_in_time(is_as_wanted, &listing))
        fail_msg("'%s' is %s: %s", name, wanted ? "not listed" : "still listed", f->result.output);
}

TEST_F(packages, required_signatures_exclude_unsigned_packages)
{
    shell(f->files, "mkdir ../vendor && cp " KDB " ../vendor && rm " KDB ".manifest");
    f->daemon.arguments[4] = "--package-path";
    f->daemon.arguments[5] = test_path(f->daemon.directory, "vendor");
    f->daemon.arguments[6] = "--require-signature";
    f->daemon.arguments[7] = "yes";
    start_with(f, "--workers", "0");

    expect_refused(f, site_file(f, KDB), "signed manifest");
    kilnctl_ok(f, "pkg", "install", site_file(f, OTHER_KDB));
    expect_served_by_packages(f, &packages_built[1]);
    expect_nothing_served(f, &packages_built[0]);
    shell(f->keys, "rm ops.pub");
    expect_listed(f, OTHER_KDB, false);
    expect_nothing_served(f, &packages_built[1]);

    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    f->daemon.arguments[7] = "no";
    daemon_process_start(&f->daemon);
    /* now the unsigned package in the directory "vendor" may be used */
    expect_served_by_packages(f, &packages_built[0]);
    kilnctl_ok(f, "pkg", "install", site_file(f, KDB));
    assert_says(f->result.output, "signed");
}

TEST_F(packages, a_package_copied_into_a_directory_is_used_until_it_is_removed)
{
    f->daemon.arguments[4] = "--package-path";
    f->daemon.arguments[5] = test_path(f->daemon.directory, "vendor");
    start_with(f, "--workers", "0");
    expect_nothing_served(f, &packages_built[0]);

    shell(f->daemon.directory, "mkdir vendor && cp files/" KDB " vendor");
    expect_listed(f, KDB, true);
    expect_served_by_packages(f, &packages_built[0]);
    kilnctl_fails(f, 4, "installed by", "pkg", "rm", KDB);

    shell(f->daemon.directory, "rm vendor/" KDB);
    expect_listed(f, KDB, false);
    expect_nothing_served(f, &packages_built[0]);
}
