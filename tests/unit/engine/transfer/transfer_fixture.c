/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/transfer/transfer_fixture.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void no_pause(uint64_t ms) { (void)ms; }

static void end_transfer(void *fixture)
{
    struct fixture *f = fixture;
    fd_auto(&f->fd);
    fd_auto(&f->job.manifest_fd);
}

void open_transfer(struct fixture *f)
{
    package_fixture_open(&f->p);
    f->policy = fetch_policy_standard;
    f->policy.pause = no_pause;
    f->fd = -1;
    f->server.context = f;
    f->job = package_job(&f->p);
    test_at_end(end_transfer, f);
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

enum kiln_code run(struct fixture *f)
{
    const struct transfer_sink sink = { .progress = on_progress, .context = f };
    transfer_run(&f->job, &f->policy, &sink, &f->result);
    http_script_stop(&f->server);
    return f->result.err.code;
}

void from_descriptor(struct fixture *f, const char *name)
{
    f->fd = open(package_path(&f->p, name), O_RDONLY | O_CLOEXEC);
    assert_true(f->fd >= 0);
    f->job.content_fd = f->fd;
    f->job.name = name;
}

void from_file_url(struct fixture *f, const char *name)
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

void from_server(struct fixture *f, const char *name)
{
    f->server.answer = answer_files;
    http_script_start(&f->server);
    snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%u/%s", f->server.port, name);
    f->job.url = f->url;
}

void expect_installed(struct fixture *f)
{
    if (f->result.err.code)
        fail_msg("code %d: %s", f->result.err.code, f->result.err.text);
    char hex[DIGEST_HEX_SIZE], whole[FIXTURE_PATH_MAX];
    struct digest digest = package_digest(package_path(&f->p, PACKAGE));
    digest_to_hex(&digest, hex);
    snprintf(whole, sizeof(whole), "%s/" PACKAGE, f->p.staging);
    assert_string_equal(f->result.name, PACKAGE);
    assert_string_equal(f->result.path, whole);
    assert_string_equal(f->result.sha256, hex);
    digest = package_digest(whole);
    digest_to_hex(&digest, hex);
    assert_string_equal(f->result.sha256, hex);
    assert_int_equal(f->result.rows, ROWS);
    snprintf(whole, sizeof(whole), "%s/" TRANSFER_MANIFEST, f->p.staging);
    /* The manifest must be in staging if the file is signed, and only then. */
    assert_int_equal(unlink(whole) == 0, f->result.signer[0] != '\0');
    snprintf(whole, sizeof(whole), "%s/" PACKAGE, f->p.staging);
    assert_int_equal(unlink(whole), 0);
    assert_is_empty(f->p.staging);
}

void expect_refused(struct fixture *f, enum kiln_code code, const char *says)
{
    assert_int_equal(run(f), code);
    assert_says(f->result.err.text, says);
    assert_is_empty(f->p.staging);
}
