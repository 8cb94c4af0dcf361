/* SPDX-License-Identifier: MIT */
#include "engine/transfer/transfer.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "tests/support/http_script.h"
#include "tests/unit/engine/transfer/package_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS 20
#define OBJECT_SIZE 5000

/* ---- fixture ---- */

struct fixture {
    struct package_fixture p;
    struct http_script server;
    struct transfer_job job;
    struct fetch_policy policy;
    struct transfer_outcome outcome;
    char stages[256]; /* as they came */
    uint64_t done, total;
    int manifest_status; /* instead of the manifest; 0: what there is */
    char url[FIXTURE_PATH_MOST + 64];
    char hex[DIGEST_HEX_SIZE];
    int fd;
};

static void no_pause(uint64_t ms) { (void)ms; }

static int set_up(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    package_fixture_open(&f.p);
    f.policy = fetch_policy_standard;
    f.policy.pause = no_pause;
    f.fd = -1;
    f.server.context = &f;
    f.job = (struct transfer_job){ .content_fd = -1,
                                   .manifest_fd = -1,
                                   .staging = f.p.staging,
                                   .trusted_keys = f.p.keys,
                                   .size_limit = 64 << 20 };
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    http_script_stop(&f->server);
    fd_auto(&f->fd);
    fd_auto(&f->job.manifest_fd);
    package_fixture_close(&f->p);
    return 0;
}

static void on_progress(void *context, const struct transfer_progress *p)
{
    struct fixture *f = context;
    size_t used = strlen(f->stages);
    size_t length = strlen(p->stage);
    if (used < length || strcmp(f->stages + used - length, p->stage) != 0)
        snprintf(f->stages + used, sizeof(f->stages) - used, "%s%s", used ? " " : "", p->stage);
    f->done = p->done;
    f->total = p->total;
}

static enum kiln_code run(struct fixture *f)
{
    const struct transfer_sink sink = { .progress = on_progress, .context = f };
    transfer_run(&f->job, &f->policy, &sink, &f->outcome);
    return f->outcome.err.code;
}

static void from_descriptor(struct fixture *f, const char *name)
{
    f->fd = open(package_path(&f->p, name), O_RDONLY | O_CLOEXEC);
    assert_true(f->fd >= 0);
    f->job.content_fd = f->fd;
    f->job.name = name;
}

static void from_file_url(struct fixture *f, const char *name)
{
    snprintf(f->url, sizeof(f->url), "file://%s", package_path(&f->p, name));
    f->job.url = f->url;
}

static void answer_files(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    char name[128] = "";
    BUFFER_AUTO struct buffer content;
    struct kiln_err err = KILN_ERR_INIT;
    (void)number;
    sscanf(s->request, "GET /%100[^ ?]", name);
    bool is_manifest = strstr(name, ".manifest");
    buffer_init(&content, 64 << 20);
    if (is_manifest && f->manifest_status)
        http_say(fd, "HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n", f->manifest_status);
    else if (fs_read_file(package_path(&f->p, name), 64 << 20, &content, &err))
        http_say(fd, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    else {
        http_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", content.size);
        http_send(fd, content.data, content.size);
    }
}

static void from_server(struct fixture *f, const char *name)
{
    f->server.answer = answer_files;
    http_script_start(&f->server);
    snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%u/%s", f->server.port, name);
    f->job.url = f->url;
}

static void expect_installed(struct fixture *f)
{
    if (f->outcome.err.code)
        fail_msg("code %d: %s", f->outcome.err.code, f->outcome.err.text);
    char hex[DIGEST_HEX_SIZE], whole[FIXTURE_PATH_MOST];
    struct digest digest = package_digest(package_path(&f->p, PACKAGE));
    digest_to_hex(&digest, hex);
    snprintf(whole, sizeof(whole), "%s/" PACKAGE, f->p.staging);
    assert_string_equal(f->outcome.name, PACKAGE);
    assert_string_equal(f->outcome.path, whole);
    assert_string_equal(f->outcome.sha256, hex);
    digest = package_digest(whole);
    digest_to_hex(&digest, hex);
    assert_string_equal(f->outcome.sha256, hex);
    assert_int_equal(f->outcome.rows, ROWS);
    assert_int_equal(unlink(whole), 0);
    assert_is_empty(f->p.staging);
}

static void expect_refused(struct fixture *f, enum kiln_code code, const char *says)
{
    assert_int_equal(run(f), code);
    assert_says(f->outcome.err.text, says);
    assert_is_empty(f->p.staging);
}

/* ---- where it may come from ---- */

static void takes_a_package_from_a_descriptor(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    struct stat seen;

    run(f);

    assert_int_equal(fstat(f->fd, &seen), 0);
    assert_int_equal(f->outcome.size, seen.st_size);
    assert_string_equal(f->outcome.source, "");
    assert_string_equal(f->outcome.signer, "");
    assert_string_equal(f->stages, "fetching checking");
    assert_int_equal(f->done, ROWS);
    assert_int_equal(f->total, ROWS);
    expect_installed(f);
}

static void takes_a_package_from_a_server(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_server(f, PACKAGE);

    run(f);

    assert_string_equal(f->outcome.source, f->url);
    expect_installed(f);
}

static void takes_a_package_from_a_file_url(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_file_url(f, PACKAGE);

    run(f);

    expect_installed(f);
}

static void unpacks_bzip2_of_several_streams(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, PACKAGE ".bz2");
    from_server(f, PACKAGE ".bz2");

    run(f);

    assert_string_equal(f->stages, "fetching unpacking checking");
    expect_installed(f);
}

static void tells_bzip2_by_its_content(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, "packed");
    from_descriptor(f, "packed");
    f->job.name = PACKAGE;

    run(f);

    expect_installed(f);
}

static void calls_the_package_as_the_user_says(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, "latest", ROWS, OBJECT_SIZE);
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_server(f, "latest");
    f->job.name = PACKAGE ".bz2";

    run(f);

    expect_installed(f);
}

/* ---- names ---- */

static void refuses_names_that_are_none_of_a_package(void **state)
{
    static const char *const names[] = {
        "",           ".hidden.kdb", "../gfx90a68.kdb", "sub/gfx90a68.kdb", "gfx90a68.kdb\n",
        "readme.txt", "gfx90a68",    "gfx90a68.kdb.gz", "gfx90a_200.kdb",   ".bz2",
    };
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        f->job.name = names[i];
        if (run(f) != KILN_INVALID)
            fail_msg("'%s': code %d, %s", names[i], f->outcome.err.code, f->outcome.err.text);
        assert_is_empty(f->p.staging);
    }
}

static void refuses_a_url_without_a_name(void **state)
{
    struct fixture *f = *state;
    f->job.url = "http://127.0.0.1:1/";

    expect_refused(f, KILN_INVALID, "no file name");
}

static void refuses_neither_url_nor_file(void **state)
{
    expect_refused(*state, KILN_INVALID, "neither");
}

/* ---- what is no file ---- */

static void takes_only_regular_files(void **state)
{
    struct fixture *f = *state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    f->job.name = PACKAGE;
    f->job.content_fd = ends[0];
    expect_refused(f, KILN_INVALID, "not a regular file");

    f->fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    f->job.content_fd = f->fd;
    expect_refused(f, KILN_INVALID, "not a regular file");

    close(f->fd);
    f->fd = open(f->p.files, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    f->job.content_fd = f->fd;
    expect_refused(f, KILN_INVALID, "not a regular file");
    close(ends[0]);
    close(ends[1]);
}

static void does_not_wait_for_a_pipe_behind_a_url(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mkfifo(package_path(&f->p, PACKAGE), 0600), 0);
    from_file_url(f, PACKAGE);

    expect_refused(f, KILN_INVALID, "not a regular file");
}

static void refuses_a_descriptor_that_may_not_be_read(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    f->fd = open(package_path(&f->p, PACKAGE), O_WRONLY | O_CLOEXEC);
    f->job.content_fd = f->fd;
    f->job.name = PACKAGE;

    expect_refused(f, KILN_IO, "cannot read");
}

static void says_which_file_is_not_there(void **state)
{
    struct fixture *f = *state;
    from_file_url(f, PACKAGE);

    expect_refused(f, KILN_NOT_FOUND, PACKAGE);
}

static void says_that_the_server_has_no_such_package(void **state)
{
    struct fixture *f = *state;
    from_server(f, PACKAGE);

    expect_refused(f, KILN_NOT_FOUND, "status 404");
}

/* ---- size ---- */

static void refuses_a_file_beyond_the_limit(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    f->job.size_limit = 50000;

    expect_refused(f, KILN_FULL, "package_limit");
}

static void refuses_what_unpacks_beyond_the_limit(void **state)
{
    struct fixture *f = *state;
    int fd = open(package_path(&f->p, "zeros"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 8 << 20), 0);
    close(fd);
    package_pack(&f->p, "zeros", PACKAGE ".bz2");
    from_descriptor(f, PACKAGE ".bz2");
    f->job.size_limit = 1 << 20;

    expect_refused(f, KILN_FULL, "package_limit");
}

static bool shrinks;
static unsigned reads;

ssize_t __real_pread(int fd, void *data, size_t size, off_t at);
ssize_t __wrap_pread(int fd, void *data, size_t size, off_t at);
ssize_t __wrap_pread(int fd, void *data, size_t size, off_t at)
{
    if (shrinks && ++reads == 2)
        assert_int_equal(ftruncate(fd, 1000), 0);
    return __real_pread(fd, data, size, at);
}

static void survives_a_file_that_shrinks_while_it_is_copied(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, 50000);
    f->fd = open(package_path(&f->p, PACKAGE), O_RDWR | O_CLOEXEC);
    f->job.content_fd = f->fd;
    f->job.name = PACKAGE;
    reads = 0;
    shrinks = true;

    enum kiln_code rc = run(f);
    shrinks = false;

    assert_int_equal(rc, KILN_CORRUPT);
    assert_true(reads >= 2);
    assert_is_empty(f->p.staging);
}

static bool disk_is_full;

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    if (!disk_is_full)
        return __real_write(fd, data, size);
    errno = ENOSPC;
    return -1;
}

static void says_that_the_disk_is_full(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    disk_is_full = true;

    enum kiln_code rc = run(f);
    disk_is_full = false;

    assert_int_equal(rc, KILN_FULL);
    assert_says(f->outcome.err.text, "No space left");
    assert_is_empty(f->p.staging);
}

/* ---- SHA-256 and signatures ---- */

static void takes_the_sha256_that_was_asked_for(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, PACKAGE ".bz2");
    from_server(f, PACKAGE ".bz2");
    struct digest digest = package_digest(package_path(&f->p, PACKAGE ".bz2"));
    digest_to_hex(&digest, f->hex);
    f->job.sha256 = f->hex;

    run(f);

    expect_installed(f);
}

static void refuses_another_sha256(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_server(f, PACKAGE);
    memset(f->hex, 'a', 64);
    f->job.sha256 = f->hex;

    expect_refused(f, KILN_CORRUPT, "SHA-256");
}

static void refuses_a_malformed_sha256_before_it_fetches(void **state)
{
    struct fixture *f = *state;
    from_server(f, PACKAGE);
    f->job.sha256 = "abc";

    expect_refused(f, KILN_INVALID, "64 hexadecimal digits");

    assert_int_equal(f->server.requests, 0);
}

static void names_who_signed_it(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, PACKAGE ".bz2");
    package_sign(&f->p, PACKAGE ".bz2", "amd", true);
    from_server(f, PACKAGE ".bz2");
    f->job.require_signature = true;

    run(f);

    assert_string_equal(f->outcome.signer, "amd");
    expect_installed(f);
}

static void takes_the_manifest_that_the_client_opened(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_sign(&f->p, PACKAGE, "amd", true);
    from_descriptor(f, PACKAGE);
    f->job.manifest_fd = open(package_path(&f->p, PACKAGE ".manifest"), O_RDONLY | O_CLOEXEC);
    f->job.require_signature = true;

    run(f);

    assert_string_equal(f->outcome.signer, "amd");
    expect_installed(f);
}

static void takes_the_manifest_beside_a_file_url(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_sign(&f->p, PACKAGE, "amd", true);
    from_file_url(f, PACKAGE);
    f->job.require_signature = true;

    run(f);

    assert_string_equal(f->outcome.signer, "amd");
    expect_installed(f);
}

static void refuses_a_flipped_bit_in_a_signed_package(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_sign(&f->p, PACKAGE, "amd", true);
    package_damage(&f->p, PACKAGE);
    from_server(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "manifest");
}

static void refuses_a_key_that_nobody_trusts(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_sign(&f->p, PACKAGE, "stranger", false);
    from_server(f, PACKAGE);

    expect_refused(f, KILN_DENIED, "manifest");

    assert_false(http_script_was_asked(&f->server, "GET /" PACKAGE " HTTP"));
}

static void refuses_the_signed_manifest_of_another_package(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_write(&f->p, "gfx906_60.kdb", ROWS, OBJECT_SIZE);
    package_sign(&f->p, "gfx906_60.kdb", "amd", true);
    char from[FIXTURE_PATH_MOST];
    snprintf(from, sizeof(from), "%s", package_path(&f->p, "gfx906_60.kdb.manifest"));
    assert_int_equal(rename(from, package_path(&f->p, PACKAGE ".manifest")), 0);
    from_server(f, PACKAGE);

    expect_refused(f, KILN_NOT_FOUND, PACKAGE);
}

static void refuses_an_unsigned_package_where_a_signature_is_required(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    f->job.require_signature = true;
    from_descriptor(f, PACKAGE);
    expect_refused(f, KILN_DENIED, "require_signature");

    from_file_url(f, PACKAGE);
    expect_refused(f, KILN_DENIED, "kilnctl pkg sign");

    from_server(f, PACKAGE);
    expect_refused(f, KILN_DENIED, "require_signature");
}

static void does_without_a_manifest_that_is_not_there(void **state)
{
    static const int statuses[] = { 403, 404, 410 };
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_server(f, PACKAGE);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        f->manifest_status = statuses[i];
        run(f);
        expect_installed(f);
    }
}

static void does_not_do_without_a_manifest_that_cannot_be_had_now(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_server(f, PACKAGE);
    f->manifest_status = 503;

    expect_refused(f, KILN_UNAVAILABLE, PACKAGE ".manifest");
}

static void says_why_a_required_manifest_is_not_given(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_server(f, PACKAGE);
    f->manifest_status = 403;
    f->job.require_signature = true;

    expect_refused(f, KILN_DENIED, "status 403");
}

static void refuses_a_manifest_that_is_none(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_write(&f->p, PACKAGE ".manifest", 1, 10);
    from_server(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "manifest");
}

/* ---- content ---- */

static void refuses_a_damaged_object_and_says_which(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_damage(&f->p, PACKAGE);
    from_descriptor(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "damaged (1 of 20 kernels)");
    assert_says(f->outcome.err.text, "conv");
}

static void counts_damage_where_it_is_to_save_what_is_left(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_damage(&f->p, PACKAGE);
    from_descriptor(f, PACKAGE);
    f->job.salvage = true;

    run(f);

    assert_int_equal(f->outcome.damaged, 1);
    expect_installed(f);
}

static void takes_any_name_of_a_users_cache(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, "old-cache", ROWS, OBJECT_SIZE);
    from_descriptor(f, "old-cache");
    f->job.salvage = true;

    assert_int_equal(run(f), KILN_OK);

    assert_string_equal(f->outcome.name, "old-cache");
    assert_int_equal(f->outcome.rows, ROWS);
}

static void refuses_a_package_that_was_cut_off(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    assert_int_equal(truncate(package_path(&f->p, PACKAGE), 50000), 0);
    from_descriptor(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "cut off");
}

static void refuses_bzip2_that_was_cut_off(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, PACKAGE ".bz2");
    assert_int_equal(truncate(package_path(&f->p, PACKAGE ".bz2"), 50000), 0);
    from_descriptor(f, PACKAGE ".bz2");

    expect_refused(f, KILN_CORRUPT, "unpacking");
}

static void refuses_what_is_no_database(void **state)
{
    struct fixture *f = *state;
    int fd = open(package_path(&f->p, PACKAGE), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    static const char page[] = "<html>Please log in</html>";
    char more[4096] = { 0 };
    assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
    assert_int_equal(write(fd, more, sizeof(more)), sizeof(more));
    close(fd);
    from_descriptor(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "SQLite");
}

static void refuses_an_empty_file(void **state)
{
    struct fixture *f = *state;
    close(open(package_path(&f->p, PACKAGE), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    from_descriptor(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "cut off");
}

static void says_that_the_staging_folder_is_gone(void **state)
{
    struct fixture *f = *state;
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    f->job.staging = "/nonexistent/staging";

    assert_int_equal(run(f), KILN_NOT_FOUND);

    assert_says(f->outcome.err.text, "/nonexistent/staging");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(takes_a_package_from_a_descriptor),
        TEST(takes_a_package_from_a_server),
        TEST(takes_a_package_from_a_file_url),
        TEST(unpacks_bzip2_of_several_streams),
        TEST(tells_bzip2_by_its_content),
        TEST(calls_the_package_as_the_user_says),
        TEST(refuses_names_that_are_none_of_a_package),
        TEST(refuses_a_url_without_a_name),
        TEST(refuses_neither_url_nor_file),
        TEST(takes_only_regular_files),
        TEST(does_not_wait_for_a_pipe_behind_a_url),
        TEST(refuses_a_descriptor_that_may_not_be_read),
        TEST(says_which_file_is_not_there),
        TEST(says_that_the_server_has_no_such_package),
        TEST(refuses_a_file_beyond_the_limit),
        TEST(refuses_what_unpacks_beyond_the_limit),
        TEST(survives_a_file_that_shrinks_while_it_is_copied),
        TEST(says_that_the_disk_is_full),
        TEST(takes_the_sha256_that_was_asked_for),
        TEST(refuses_another_sha256),
        TEST(refuses_a_malformed_sha256_before_it_fetches),
        TEST(names_who_signed_it),
        TEST(takes_the_manifest_that_the_client_opened),
        TEST(takes_the_manifest_beside_a_file_url),
        TEST(refuses_a_flipped_bit_in_a_signed_package),
        TEST(refuses_a_key_that_nobody_trusts),
        TEST(refuses_the_signed_manifest_of_another_package),
        TEST(refuses_an_unsigned_package_where_a_signature_is_required),
        TEST(does_without_a_manifest_that_is_not_there),
        TEST(does_not_do_without_a_manifest_that_cannot_be_had_now),
        TEST(says_why_a_required_manifest_is_not_given),
        TEST(refuses_a_manifest_that_is_none),
        TEST(refuses_a_damaged_object_and_says_which),
        TEST(counts_damage_where_it_is_to_save_what_is_left),
        TEST(takes_any_name_of_a_users_cache),
        TEST(refuses_a_package_that_was_cut_off),
        TEST(refuses_bzip2_that_was_cut_off),
        TEST(refuses_what_is_no_database),
        TEST(refuses_an_empty_file),
        TEST(says_that_the_staging_folder_is_gone),
    };
    setenv("no_proxy", "127.0.0.1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
