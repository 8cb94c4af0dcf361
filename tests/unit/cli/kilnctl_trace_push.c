/* SPDX-License-Identifier: MIT */
/* 'trace push' and 'trace pull' with a tree in a directory. Each "user" has a HOME of his own. */
#include "tests/unit/cli/kilnctl_run.h"
#include "tests/unit/cli/scratch_directory.h"

#include "cli/kilnctl/trace_tree.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_directory.h"
#include "engine/fleet/fleet_push.h"
#include "engine/fleet/fleet_tree.h"
#include "tests/support/fleet_keys.h"
#include "tests/support/test_buffer.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "1764288000-node7-42.trace"
#define PULLED "1764288000-node7-42.pulled"
#define TRACE                                                     \
    "kiln-trace 1\nprocess 1764288000000000 node7 42 libkiln 1\n" \
    "plan 5000 2000 compiled gfx90a - - - conv -n 1 -c 8 -k 8 -F 1\n"

struct fixture {
    struct command_run run;
    const char *directory;
    char key[512], trust[512], tree[512], home[512];
    struct fleet_signer signer;
    struct kiln_err err;
};

static void trust(struct fixture *f, const char *targets)
{
    fleet_test_trust(f->trust, &f->signer, &(struct fleet_test_key){ "alice", targets, true });
}

SET_UP(set_up)
{
    f->directory = test_directory();
    scratch_path(f->directory, "alice.key", f->key);
    scratch_path(f->directory, "trust", f->trust);
    scratch_path(f->directory, "tree", f->tree);
    test_setenv("XDG_CACHE_HOME", NULL);
    must(manifest_keygen(f->directory, "alice", &f->err), f->err);
    must(fleet_signer_read(f->key, &f->signer, &f->err), f->err);
    assert_int_equal(mkdir(f->trust, 0700), 0);
    assert_int_equal(mkdir(f->tree, 0700), 0);
    trust(f, "trace");
}

FIXTURE(trace_push, set_up, NULL);

static void become(struct fixture *f, const char *user)
{
    scratch_path(f->directory, user, f->home);
    (void)mkdir(f->home, 0700);
    test_setenv("HOME", f->home);
}

static void write_trace(struct fixture *f, const char *job, const char *name, const char *text)
{
    char path[800];
    snprintf(path, sizeof(path), "%s/.cache/kiln/traces/%s", f->home, job);
    must(fs_make_directories_mode(path, 0700, &f->err), f->err);
    snprintf(path, sizeof(path), "%s/.cache/kiln/traces/%s/%s", f->home, job, name);
    must(fs_replace_file(path, bytes_of_text(text), 0600, &f->err), f->err);
}

static int push(struct fixture *f, const char *what)
{
    return RUN(&f->run, "trace", "push", "--key", f->key, what, f->tree);
}

static void compact(struct fixture *f)
{
    must(RUN(&f->run, "fleet", "compact", "--key", f->key, "--trust", f->trust, f->tree),
         f->run.err);
}

static int pull(struct fixture *f, const char *job)
{
    return RUN(&f->run, "trace", "pull", "--trust", f->trust, job, f->tree);
}

static void push_as_alice(struct fixture *f)
{
    become(f, "alice");
    write_trace(f, "net", NAME, TRACE);
    must(push(f, "net"), f->run.err);
}

static void expect_file(struct fixture *f, const char *job, const char *name, bool is_there)
{
    char path[800];
    struct stat seen;
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 4096);
    snprintf(path, sizeof(path), "%s/.cache/kiln/traces/%s/%s", f->home, job, name);
    assert_int_equal(access(path, F_OK) == 0, is_there);
    if (!is_there)
        return;
    must(fs_read_file(path, 4096, &text, &f->err), f->err);
    assert_true(bytes_equal_text(buffer_view(&text), TRACE));
    assert_int_equal(stat(path, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0600);
}

TEST_F(trace_push, another_user_gets_the_traces_of_a_job)
{
    push_as_alice(f);
    assert_says(f->run.printed, "'net': 1");
    compact(f);
    become(f, "bob");
    must(pull(f, "net"), f->run.err);
    assert_says(f->run.printed, "1 written, 0 were there already");
    expect_file(f, "net", PULLED, true);
    must(pull(f, "net"), f->run.err);
    assert_says(f->run.printed, "0 written, 1 were there already");
    must(RUN(&f->run, "trace", "show", "net", "--json"), f->run.err);
    assert_says(f->run.printed, "\"plans\":1");
}

TEST_F(trace_push, one_file_is_pushed_for_another_job)
{
    char path[800];
    become(f, "alice");
    write_trace(f, "net", NAME, TRACE);
    snprintf(path, sizeof(path), "%s/.cache/kiln/traces/net/" NAME, f->home);
    must(RUN(&f->run, "trace", "push", "--key", f->key, "--job", "other", path, f->tree),
         f->run.err);
    must(push(f, path), f->run.err);
    compact(f);
    become(f, "bob");
    f->run.common.json = true;
    must(pull(f, "other"), f->run.err);
    assert_string_equal(f->run.printed,
                        "{\"job\":\"other\",\"written\":1,\"present\":0,\"refused\":0}\n");
    must(pull(f, "net"), f->run.err);
    expect_file(f, "net", PULLED, true);
}

TEST_F(trace_push, own_traces_are_not_pulled_again)
{
    push_as_alice(f);
    compact(f);
    must(pull(f, "net"), f->run.err);
    assert_says(f->run.printed, "0 written, 1 were there already");
    expect_file(f, "net", PULLED, false);
}

TEST_F(trace_push, pulled_traces_are_not_pushed)
{
    push_as_alice(f);
    compact(f);
    become(f, "bob");
    must(pull(f, "net"), f->run.err);
    assert_int_equal(push(f, "net"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "ran here");
    write_trace(f, "net", "1764288001-node8-42.trace", TRACE);
    must(push(f, "net"), f->run.err);
    assert_says(f->run.printed, "'net': 1");
}

#define EARLIER                                                   \
    "kiln-trace 1\nprocess 1764287000000000 node8 42 libkiln 1\n" \
    "plan 5000 2000 hot gfx90a - - - conv -n 1 -c 8 -k 8 -F 1\n"

TEST_F(trace_push, a_pull_keeps_no_more_traces_than_a_job_writes)
{
    push_as_alice(f);
    compact(f);
    become(f, "bob");
    for (unsigned i = 0; i < TRACE_FILES_MAX; i++) {
        char name[64];
        snprintf(name, sizeof(name), "%u-node6-1.pulled", 1764287000 + i);
        write_trace(f, "net", name, TRACE);
    }
    must(pull(f, "net"), f->run.err);
    expect_file(f, "net", "1764287000-node6-1.pulled", false);
    expect_file(f, "net", "1764287001-node6-1.pulled", true);
    expect_file(f, "net", PULLED, true);
}

/* The clock of node7, whose trace is pulled, is ahead of this host's. */
TEST_F(trace_push, pulled_traces_belong_to_no_run)
{
    push_as_alice(f);
    compact(f);
    become(f, "bob");
    must(pull(f, "net"), f->run.err);
    assert_int_equal(RUN(&f->run, "report", "--job", "net", "--json"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "ran here");
    write_trace(f, "net", "1764286000-node8-41.prefetch",
                "kiln-trace 1\nprocess 1764286000000000 node8 41 kilnctl 1\n");
    write_trace(f, "net", "1764287000-node8-42.trace", EARLIER);
    f->run.common.json = true;
    must(RUN(&f->run, "trace", "prefetch", "net", "--report"), f->run.err);
    assert_says(f->run.printed, "\"processes\":1,");
    must(RUN(&f->run, "report", "--job", "net"), f->run.err);
    assert_says(f->run.printed, "\"processes\":1,");
    assert_null(strstr(f->run.printed, "\"processes\":2"));
}

TEST_F(trace_push, a_trace_that_was_not_packed_is_not_found)
{
    push_as_alice(f);
    assert_int_equal(pull(f, "net"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "fleet compact");
}

TEST_F(trace_push, names_with_other_characters_are_refused)
{
    become(f, "alice");
    assert_int_equal(pull(f, "../net"), KILN_E_INVALID);
    assert_int_equal(pull(f, ""), KILN_E_INVALID);
    write_trace(f, "net", "strange name.trace", TRACE);
    must(push(f, "net"), f->run.err);
    assert_says(f->run.printed, "1 left out");
}

TEST_F(trace_push, traces_of_a_key_for_other_targets_are_refused)
{
    push_as_alice(f);
    trust(f, "*");
    compact(f);
    trust(f, "gfx90a");
    become(f, "bob");
    must(pull(f, "net"), f->run.err);
    assert_says(f->run.printed, "1 refused");
    expect_file(f, "net", NAME, false);
}

/* Adds a record that a trusted key signed, but that is no trace. */
static void push_record(struct fixture *f, const char *name, const char *text)
{
    BUFFER_AUTO struct buffer record;
    KILN_AUTO(codec) struct codec *codec = NULL;
    const struct fleet_claim claim = { .key = sha256_of(bytes_of_text(text)),
                                       .shard = trace_shard("net"),
                                       .options = bytes_of_text(name) };
    int root = -1;
    buffer_init(&record, FLEET_RECORD_MAX);
    must(codec_create(&codec, &f->err), f->err);
    must(fleet_record_write(codec, &claim, bytes_of_text(text), &record, &f->err), f->err);
    must(fleet_tree_open(f->tree, &root, &f->err), f->err);
    struct fleet_directory directory = fleet_directory_of(root);
    struct fleet_pushing pushing = { .store = &directory.store, .signer = &f->signer };
    must(fleet_push(&pushing, record.data, record.size, &f->err), f->err);
    close(root);
}

TEST_F(trace_push, a_signed_record_cannot_write_outside_the_directory)
{
    become(f, "bob");
    push_record(f, "../../escaped.trace", TRACE);
    push_record(f, "1764288000-node7-43.trace", "not a trace");
    compact(f);
    must(pull(f, "net"), f->run.err);
    assert_says(f->run.printed, "0 written, 0 were there already");
    assert_says(f->run.printed, "2 refused");
    expect_file(f, "..", "escaped.trace", false);
    expect_file(f, "net", "1764288000-node7-43.trace", false);
}

TEST_F(trace_push, a_tree_that_does_not_exist_is_not_created)
{
    become(f, "alice");
    write_trace(f, "net", NAME, TRACE);
    scratch_path(f->directory, "treee", f->tree);
    assert_int_equal(push(f, "net"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "mkdir");
    assert_int_not_equal(access(f->tree, F_OK), 0);
}

TEST_F(trace_push, pushing_needs_a_key)
{
    become(f, "alice");
    assert_int_equal(RUN(&f->run, "trace", "push", "net", f->tree), KILN_E_INVALID);
    assert_says(f->run.err.text, "--key");
}
