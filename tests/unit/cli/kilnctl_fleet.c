/* SPDX-License-Identifier: MIT */

#include "tests/support/test.h"
#include "tests/unit/cli/kilnctl_fake.h"
#include "tests/unit/cli/scratch_directory.h"

#include "cli/kilnctl/fleet_key_file.h"
#include "cli/kilnctl/nap.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_record.h"
#include "engine/fleet/fleet_series.h"
#include "tests/support/fleet_keys.h"
#include "tests/support/test_buffer.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

struct fixture {
    struct command_run run;
    const char *directory;
    char key[512], trust[512], tree[512];
    struct buffer records;
    struct kiln_err err;
};

SET_UP(set_up)
{
    struct fleet_signer signer;
    memset(&fake, 0, sizeof(fake));
    f->directory = test_directory();
    scratch_path(f->directory, "alice.key", f->key);
    scratch_path(f->directory, "trust", f->trust);
    scratch_path(f->directory, "tree", f->tree);
    must(manifest_keygen(f->directory, "alice", &f->err), f->err);
    must(fleet_signer_read(f->key, &signer, &f->err), f->err);
    assert_int_equal(mkdir(f->trust, 0700), 0);
    assert_int_equal(mkdir(f->tree, 0700), 0);
    fleet_test_trust(f->trust, &signer, &(struct fleet_test_key){ "alice", "gfx90a", true });
    test_buffer(&f->records, 1u << 20);
}

FIXTURE(kilnctl_fleet, set_up, NULL);

static void put_object(struct fixture *f, const char *target, unsigned number, struct bytes object)
{
    KILN_AUTO(codec) struct codec *codec = NULL;
    const struct fleet_claim claim = { .key = sha256_of(bytes_of(&number, sizeof(number))),
                                       .shard = { .target = bytes_of_text(target) },
                                       .program = bytes_of_text("conv") };
    must(codec_create(&codec, &f->err), f->err);
    must(fleet_record_write(codec, &claim, object, &f->records, &f->err), f->err);
}

static void put_record(struct fixture *f, const char *target, unsigned number)
{
    put_object(f, target, number, bytes_of_text("object"));
}

static int push(struct fixture *f, const char *reply)
{
    fake.asked = 0;
    fake.answers[0] = (struct fake_answer){ .reply = reply,
                                            .files = { (const char *)f->records.data },
                                            .sizes = { f->records.size } };
    return RUN(&f->run, "fleet", "push", "--key", f->key, "--target", "gfx90a", f->tree);
}

static int compact(struct fixture *f)
{
    return RUN(&f->run, "fleet", "compact", "--key", f->key, "--trust", f->trust, f->tree);
}

TEST_F(kilnctl_fleet, kernels_are_pushed_once)
{
    put_record(f, "gfx90a", 1);
    put_record(f, "gfx90a:xnack-", 2);
    assert_int_equal(push(f, "{\"kernels\":2,\"left_out\":0}"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "fleet_export {\"target\":\"gfx90a\"}");
    assert_says(f->run.printed, "2 kernels added, 0 ");
    assert_int_equal(push(f, "{\"kernels\":2,\"left_out\":3,\"damaged\":4}"), KILN_E_OK);
    assert_says(f->run.printed, "0 kernels added, 2 ");
    assert_says(f->run.printed, "3 left out: larger");
    assert_says(f->run.printed, "4 left out: damaged");
}

static void put_block(struct fixture *f, const char *series, const char *content)
{
    KILN_AUTO(codec) struct codec *codec = NULL;
    const struct bytes raw = bytes_of_text(content);
    const struct fleet_claim claim = { .key = sha256_of(raw),
                                       .shard =
                                           fleet_shard_named(bytes_of_text("gfx90a"), FLEET_TUNING,
                                                             bytes_of_text("gfx90a68")),
                                       .program = bytes_of_text("gfx90a68"),
                                       .options = bytes_of_text(series),
                                       .time = strlen(content) };
    must(codec_create(&codec, &f->err), f->err);
    must(fleet_record_write(codec, &claim, raw, &f->records, &f->err), f->err);
}

static int push_all(struct fixture *f, const char *tuning)
{
    fake.asked = 0;
    fake.answers[0] = (struct fake_answer){ .code = KILN_E_NOT_FOUND };
    fake.answers[1] = (struct fake_answer){ .reply = tuning,
                                            .files = { (const char *)f->records.data },
                                            .sizes = { f->records.size } };
    return RUN(&f->run, "fleet", "push", "--key", f->key, f->tree);
}

TEST_F(kilnctl_fleet, tuning_records_are_pushed_without_kernels)
{
    put_block(f, "host-0", "records");
    assert_int_equal(push_all(f, "{\"records\":7,\"entries\":9}"), KILN_E_OK);
    assert_string_equal(fake.requests[0], "fleet_export {}");
    assert_string_equal(fake.requests[1], "fleet_tuning_export {}");
    assert_says(f->run.printed, "tuning records of 7 problems: added");
    assert_int_equal(push_all(f, "{\"records\":7}"), KILN_E_OK);
    assert_says(f->run.printed, "7 problems: there already");
}

TEST_F(kilnctl_fleet, a_block_that_removes_records_is_reported)
{
    put_block(f, "host-0", "no records");
    assert_int_equal(push_all(f, "{\"records\":0,\"entries\":0}"), KILN_E_OK);
    assert_says(f->run.printed, "removed");
}

TEST_F(kilnctl_fleet, only_tuning_records_are_pushed_on_request)
{
    put_block(f, "host-0", "records");
    fake.answers[0] = (struct fake_answer){ .reply = "{\"records\":7}",
                                            .files = { (const char *)f->records.data },
                                            .sizes = { f->records.size } };
    assert_int_equal(RUN(&f->run, "fleet", "push", "--records", "--key", f->key, f->tree),
                     KILN_E_OK);
    assert_int_equal(fake.asked, 1);
    assert_string_equal(fake.requests[0], "fleet_tuning_export {}");
    assert_string_equal(f->run.printed, "tuning records of 7 problems: added\n");
    fake.asked = 0;
    fake.answers[0] = (struct fake_answer){ .reply = "{\"records\":0}" };
    assert_int_equal(RUN(&f->run, "fleet", "push", "--records", "--key", f->key, f->tree),
                     KILN_E_OK);
    assert_says(f->run.printed, "none");
    assert_int_equal(
        RUN(&f->run, "fleet", "push", "--records", "--key", f->key, "--target", "gfx90a", f->tree),
        KILN_E_INVALID);
}

TEST_F(kilnctl_fleet, a_newer_block_replaces_the_older_one_of_its_series)
{
    put_block(f, "host-0", "old");
    put_block(f, "host-0", "newer");
    put_block(f, "other-0", "of another host");
    assert_int_equal(push_all(f, "{\"records\":7}"), KILN_E_OK);
    assert_int_equal(compact(f), KILN_E_OK);
    assert_says(f->run.printed, "2 blocks of tuning records");
    buffer_clear(&f->records);
    put_block(f, "host-0", "the newest");
    assert_int_equal(push_all(f, "{\"records\":7}"), KILN_E_OK);
    assert_int_equal(compact(f), KILN_E_OK);
    assert_says(f->run.printed, "1 blocks of tuning records");
    assert_int_equal(RUN(&f->run, "fleet", "verify", "--trust", f->trust, f->tree), KILN_E_OK);
    assert_says(f->run.printed, "0 kernels, blocks: 2, indices: 1, bad: 0");
}

TEST_F(kilnctl_fleet, pushed_kernels_are_packed)
{
    put_record(f, "gfx90a", 1);
    put_record(f, "gfx90a", 2);
    put_record(f, "gfx942", 3);
    assert_int_equal(push(f, "{}"), KILN_E_OK);
    assert_int_equal(compact(f), KILN_E_OK);
    assert_says(f->run.printed, "2 kernels packed (packs: 1, merged: 0, indices: 1)");
    assert_says(f->run.printed, "1 not packed"); /* alice may not sign for gfx942 */
    assert_says(f->run.printed, "'targets'");
}

TEST_F(kilnctl_fleet, results_are_printed_as_json)
{
    put_record(f, "gfx90a", 1);
    f->run.common.json = true;
    assert_int_equal(push(f, "{\"left_out\":1,\"damaged\":2}"), KILN_E_OK);
    assert_string_equal(f->run.printed,
                        "{\"added\":1,\"present\":0,\"left_out\":1,\"damaged\":2,\"records\":0,"
                        "\"blocks_added\":0}\n");
    assert_int_equal(compact(f), KILN_E_OK);
    assert_string_equal(f->run.printed,
                        "{\"problems\":[],\"conditions\":true,\"kernels\":1,\"blocks\":0,"
                        "\"packs\":1,\"merged\":0,\"indices\":1,\"dropped\":0,\"refused\":0}\n");
}

TEST_F(kilnctl_fleet, both_commands_need_a_key)
{
    assert_int_equal(RUN(&f->run, "fleet", "push", f->tree), KILN_E_INVALID);
    assert_says(f->run.err.text, "--key");
    assert_int_equal(RUN(&f->run, "fleet", "compact", f->tree), KILN_E_INVALID);
    assert_says(f->run.err.text, "--key");
    assert_int_equal(fake.asked, 0);
}

TEST_F(kilnctl_fleet, an_index_that_no_host_would_use_is_not_signed)
{
    char pub[512];
    snprintf(pub, sizeof(pub), "%.480s/alice.pub", f->trust);
    assert_int_equal(unlink(pub), 0);
    assert_int_equal(compact(f), KILN_E_DENIED);
}

TEST_F(kilnctl_fleet, the_keys_of_the_host_are_trusted_by_default)
{
    put_record(f, "gfx90a", 1);
    assert_int_equal(push(f, "{}"), KILN_E_OK);
    assert_int_equal(RUN(&f->run, "fleet", "compact", "--key", f->key, f->tree), KILN_E_DENIED);
    assert_says(f->run.err.text, "'/etc/kiln/fleet-keys.d'");
}

TEST_F(kilnctl_fleet, a_tree_is_verified)
{
    const Elf64_Ehdr elf = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
                                          ELFDATA2LSB, [EI_ABIVERSION] = 3 },
                             .e_machine = EM_AMDGPU,
                             .e_flags = 0x3f };
    put_object(f, "gfx90a", 1, bytes_of(&elf, sizeof(elf)));
    assert_int_equal(push(f, "{}"), KILN_E_OK);
    assert_int_equal(compact(f), KILN_E_OK);
    assert_int_equal(RUN(&f->run, "fleet", "verify", "--trust", f->trust, f->tree), KILN_E_OK);
    assert_says(f->run.printed, "1 kernel, blocks: 0, indices: 1, bad: 0");
    assert_int_equal(RUN(&f->run, "fleet", "verify", "--trust", f->directory, f->tree),
                     KILN_E_CORRUPT); /* no key of that directory may sign */
    assert_says(f->run.printed, "v1/i/");
}

TEST_F(kilnctl_fleet, an_object_that_is_not_code_for_its_target_is_found)
{
    put_record(f, "gfx90a", 1);
    assert_int_equal(push(f, "{}"), KILN_E_OK);
    assert_int_equal(compact(f), KILN_E_OK);
    assert_int_equal(RUN(&f->run, "fleet", "verify", "--trust", f->trust, f->tree), KILN_E_CORRUPT);
    assert_says(f->run.printed, "target");
}

TEST_F(kilnctl_fleet, two_commands_do_not_change_a_tree_at_the_same_time)
{
    char lock[600];
    put_record(f, "gfx90a", 1);
    assert_int_equal(push(f, "{}"), KILN_E_OK);
    snprintf(lock, sizeof(lock), "%.500s/.lock", f->tree);
    KILN_AUTO(fd) int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(compact(f), KILN_E_BUSY);
    assert_says(f->run.err.text, "another");
    assert_int_equal(RUN(&f->run, "fleet", "gc", "--trust", f->trust, f->tree), KILN_E_BUSY);
    assert_int_equal(RUN(&f->run, "fleet", "gc", "--dry-run", "--trust", f->trust, f->tree),
                     KILN_E_OK);
}

TEST_F(kilnctl_fleet, an_absent_tree_is_not_created)
{
    char absent[512];
    scratch_path(f->directory, "absent", absent);
    assert_int_equal(RUN(&f->run, "fleet", "verify", "--trust", f->trust, absent),
                     KILN_E_NOT_FOUND);
    put_record(f, "gfx90a", 1);
    snprintf(f->tree, sizeof(f->tree), "%s", absent);
    assert_int_equal(push(f, "{}"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "mkdir");
    assert_int_equal(compact(f), KILN_E_NOT_FOUND);
    assert_int_not_equal(access(absent, F_OK), 0);
}

TEST_F(kilnctl_fleet, a_tree_may_be_named_as_in_kilnds_settings)
{
    char path[512];
    put_record(f, "gfx90a", 1);
    snprintf(path, sizeof(path), "%s", f->tree);
    snprintf(f->tree, sizeof(f->tree), "file://%.500s", path);
    assert_int_equal(push(f, "{}"), KILN_E_OK);
    snprintf(f->tree, sizeof(f->tree), "%s", path);
    assert_int_equal(compact(f), KILN_E_OK);
    assert_says(f->run.printed, "1 kernel packed");
}

TEST_F(kilnctl_fleet, a_key_is_trusted_for_what_is_named)
{
    char pub[512], keys[512];
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    scratch_path(f->directory, "alice.pub", pub);
    scratch_path(f->directory, "keys", keys);
    assert_int_equal(
        RUN(&f->run, "fleet", "trust", pub, "--targets", "gfx90a", "--index", "--directory", keys),
        KILN_E_OK);
    assert_says(f->run.printed, "/keys/alice.pub");
    must(fleet_trust_read(keys, &trust, &f->err), f->err);
    assert_int_equal(fleet_trust_count(trust), 1);
}

TEST_F(kilnctl_fleet, another_key_of_the_same_name_is_not_replaced)
{
    char pub[512], other[512];
    scratch_path(f->directory, "other", other);
    assert_int_equal(mkdir(other, 0700), 0);
    must(manifest_keygen(other, "alice", &f->err), f->err);
    scratch_path(f->directory, "other/alice.pub", pub);
    assert_int_equal(RUN(&f->run, "fleet", "trust", pub, "--index", "--directory", f->trust),
                     KILN_E_INVALID);
    assert_says(f->run.err.text, "another key");
    assert_says(f->run.err.text, "fleet enrol");
    scratch_path(f->directory, "alice.pub", pub);
    assert_int_equal(RUN(&f->run, "fleet", "trust", pub, "--index", "--directory", f->trust),
                     KILN_E_OK);
}

TEST_F(kilnctl_fleet, a_key_without_rights_and_a_secret_key_are_refused)
{
    char pub[512];
    scratch_path(f->directory, "alice.pub", pub);
    assert_int_equal(RUN(&f->run, "fleet", "trust", pub), KILN_E_INVALID);
    assert_says(f->run.err.text, "--targets");
    assert_int_equal(RUN(&f->run, "fleet", "trust", f->key, "--index", "--directory", f->directory),
                     KILN_E_INVALID);
    assert_says(f->run.err.text, ".pub");
}

static const char fleet_state[] =
    "{\"fleet\":{\"up\":false,\"broken_s\":90,\"retry_s\":30,\"last_error\":\"no route\","
    "\"last_error_s\":5,\"leases\":\"off\",\"keys\":{\"trusted\":2,\"for_indices\":1,"
    "\"bad\":1,\"first_bad\":\"x.pub\"},\"requests\":{\"done\":3,\"forbidden\":2},"
    "\"refused\":{},\"late\":4,\"uploads\":{\"waiting\":7,\"results\":{\"exists\":1}},"
    "\"shards\":[{\"target\":\"gfx90a\",\"toolchain\":\"clang\","
    "\"toolchain_id\":\"0123456789abcdef\",\"epoch\":12,\"time\":1,\"kernels\":84,"
    "\"packs\":2,\"memory_bytes\":2048,\"checked_s\":6},"
    "{\"target\":\"gfx90a\",\"toolchain\":\"kiln-tuning-1\",\"epoch\":12,\"time\":1,"
    "\"blocks\":77,\"packs\":1,\"memory_bytes\":100},"
    "{\"target\":\"gfx942\",\"trouble\":\"there is no such file\"}]}}";

TEST_F(kilnctl_fleet, the_state_of_the_fleet_is_shown)
{
    static const char *const texts[] = { "fails since",
                                         "no route",
                                         "off: the store ignores",
                                         "2 trusted, 1 of them for indices; not used: 1 (x.pub)",
                                         "7 waiting; exists 1",
                                         "done 3, forbidden 2",
                                         "clang 0123456789ab",
                                         "2.0 KiB",
                                         "       -      77", /* kernels and blocks */
                                         "there is no such file",
                                         "4 look-ups got no answer" };
    fake.answers[0].reply = fleet_state;
    assert_int_equal(RUN(&f->run, "fleet", "status"), KILN_E_OK);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_says(f->run.printed, texts[i]);
}

TEST_F(kilnctl_fleet, the_state_of_the_fleet_is_printed_as_json)
{
    fake.answers[0].reply = fleet_state;
    f->run.common.json = true;
    assert_int_equal(RUN(&f->run, "fleet", "status"), KILN_E_OK);
    assert_says(f->run.printed, "{\"up\":false,\"broken_s\":90");
}

TEST_F(kilnctl_fleet, without_a_fleet_the_state_is_an_error)
{
    fake.answers[0].reply = "{}";
    assert_int_equal(RUN(&f->run, "fleet", "status"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "'fleet'");
}

static void trust_alice(struct fixture *f, char pub[512], char keys[512])
{
    scratch_path(f->directory, "alice.pub", pub);
    scratch_path(f->directory, "keys", keys);
    assert_int_equal(
        RUN(&f->run, "fleet", "trust", pub, "--targets", "gfx90a", "--directory", keys), KILN_E_OK);
}

static unsigned count_trusted(struct fixture *f, const char *keys)
{
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    must(fleet_trust_read(keys, &trust, &f->err), f->err);
    return fleet_trust_count(trust);
}

static void script_revocation(const char *keys, const char *clear_reply)
{
    static char reply[1024];
    snprintf(reply, sizeof(reply), "{\"keys\":{\"directory\":\"%.500s\"},\"dropped\":1}", keys);
    fake.asked = 0;
    fake.answers[0].reply = reply;
    fake.answers[1].reply = "{\"kernels\":[{\"key\":\"0123456789abcdef\",\"target\":\"gfx90a\","
                            "\"program\":\"conv.cl\"}]}";
    fake.answers[2].reply = clear_reply;
}

TEST_F(kilnctl_fleet, a_revoked_key_stays_untrusted_when_its_file_is_written_again)
{
    char pub[512], keys[512];
    trust_alice(f, pub, keys);
    assert_int_equal(count_trusted(f, keys), 1);
    script_revocation(keys, "{\"kernels\":1,\"bytes\":9}");
    assert_int_equal(RUN(&f->run, "fleet", "revoke", "alice", "--directory", keys), KILN_E_OK);
    assert_says(f->run.printed, "0123456789ab  gfx90a  conv.cl");
    assert_says(f->run.printed, "in the store");
    assert_string_equal(fake.requests[0], "fleet_keys -");
    assert_says(fake.requests[1], "\"package\":\"fleet:");
    assert_says(fake.requests[2], "\"dry_run\":true");
    assert_int_equal(count_trusted(f, keys), 0);
    assert_int_equal(RUN(&f->run, "fleet", "trust", pub, "--targets", "*", "--directory", keys),
                     KILN_E_DENIED);
    assert_says(f->run.err.text, ".revoked");
}

TEST_F(kilnctl_fleet, the_kernels_of_a_revoked_key_are_removed_on_request)
{
    char pub[512], keys[512];
    trust_alice(f, pub, keys);
    script_revocation(keys, "{\"kernels\":1,\"bytes\":9}");
    fake.answers[3] = (struct fake_answer){ .reply = "{\"entries\":3}" };
    f->run.common.json = true;
    assert_int_equal(RUN(&f->run, "fleet", "revoke", pub, "--remove", "--directory", keys),
                     KILN_E_OK);
    assert_says(fake.requests[2], "\"dry_run\":false");
    assert_says(fake.requests[3], "tuning_remove {\"tier\":\"host\",\"origin\":\"fleet:");
    assert_says(f->run.printed, "\"removed\":true");
    assert_says(f->run.printed, "\"tuning_entries\":3");
    assert_says(f->run.printed, "\"indices\":1");
}

TEST_F(kilnctl_fleet, an_id_that_no_key_has_is_pointed_out)
{
    char pub[512], keys[512];
    trust_alice(f, pub, keys);
    script_revocation(keys, "{}");
    assert_int_equal(RUN(&f->run, "fleet", "revoke", "0123456789abcdef", "--directory", keys),
                     KILN_E_OK);
    assert_says(f->run.printed, "key_id");
    script_revocation(keys, "{}");
    assert_int_equal(RUN(&f->run, "fleet", "revoke", pub, "--directory", keys), KILN_E_OK);
    assert_null(strstr(f->run.printed, "key_id"));
}

TEST_F(kilnctl_fleet, a_key_is_revoked_without_kilnd_too)
{
    char pub[512], keys[512];
    trust_alice(f, pub, keys);
    fake.asked = 0;
    fake.answers[0] = (struct fake_answer){ .code = KILN_E_UNAVAILABLE };
    assert_int_equal(RUN(&f->run, "fleet", "revoke", "alice", "--directory", keys),
                     KILN_E_UNAVAILABLE);
    assert_says(f->run.err.text, "wrote '");
    assert_int_equal(count_trusted(f, keys), 0);
    fake.asked = 0;
    fake.answers[0] = (struct fake_answer){ .code = KILN_E_UNSUPPORTED };
    assert_int_equal(RUN(&f->run, "fleet", "revoke", "alice", "--directory", keys),
                     KILN_E_UNSUPPORTED);
    assert_says(f->run.err.text, "uses no fleet");
}

TEST_F(kilnctl_fleet, revoking_a_key_in_another_directory_than_kilnds_is_an_error)
{
    char pub[512], keys[512];
    trust_alice(f, pub, keys);
    script_revocation("/etc", "{}");
    assert_int_equal(RUN(&f->run, "fleet", "revoke", "0123456789abcdef", "--directory", keys),
                     KILN_E_INVALID);
    assert_says(f->run.err.text, "'/etc'");
    assert_int_equal(RUN(&f->run, "fleet", "revoke", "nobody", "--directory", keys),
                     KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "key_id");
}

TEST_F(kilnctl_fleet, enrolling_makes_a_key_that_other_hosts_can_trust_as_it_is)
{
    char keys[512], secret[512];
    struct fleet_signer signer;
    scratch_path(f->directory, "host", keys);
    scratch_path(f->directory, "host/n1.key", secret);
    assert_int_equal(
        RUN(&f->run, "fleet", "enrol", "--targets", "gfx90a", "--name", "n1", "--directory", keys),
        KILN_E_OK);
    assert_says(f->run.printed, "host/n1.key");
    assert_says(f->run.printed, "fleet_builder");
    assert_null(strstr(f->run.printed, "compact"));
    assert_int_equal(count_trusted(f, keys), 1);
    must(fleet_signer_read(secret, &signer, &f->err), f->err);
    f->run.common.json = true;
    assert_int_equal(RUN(&f->run, "fleet", "enrol", "--targets", "*", "--index", "--name", "n1",
                         "--directory", keys),
                     KILN_E_OK);
    assert_says(f->run.printed, "\"index\":true");
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    must(fleet_trust_read(keys, &trust, &f->err), f->err);
    assert_true(fleet_trust_may_index(trust, signer.key_id)); /* the key is still the same */
    assert_int_equal(RUN(&f->run, "fleet", "enrol", "--directory", keys), KILN_E_INVALID);
}

TEST_F(kilnctl_fleet, a_key_for_indices_alone_is_not_for_kilnd)
{
    char keys[512];
    scratch_path(f->directory, "host", keys);
    assert_int_equal(RUN(&f->run, "fleet", "enrol", "--index", "--name", "i1", "--directory", keys),
                     KILN_E_OK);
    assert_says(f->run.printed, "fleet compact");
    assert_null(strstr(f->run.printed, "fleet_builder"));
}

TEST(kilnctl_fleet, only_a_refusal_is_advised_to_run_as_root)
{
    struct kiln_error err = { .code = KILN_E_DENIED, .text = "cannot write" };
    assert_int_equal(fleet_key_advise(&err), KILN_E_DENIED);
    assert_says(err.text, "root");
    err = (struct kiln_error){ .code = KILN_E_IO, .text = "cannot write" };
    assert_int_equal(fleet_key_advise(&err), KILN_E_IO);
    assert_null(strstr(err.text, "root"));
}

static unsigned naps;

void nap_ms(unsigned ms) { naps += ms > 0; }

#define PULL(state) \
    "{\"fleet\":{\"pull\":{\"state\":\"" state "\",\"total\":9,\"present\":2,\"fetched\":7}}}"

TEST_F(kilnctl_fleet, a_pull_is_watched_until_it_ends)
{
    fake.answers[0].reply = "{\"devices\":[{\"target\":\"gfx90a:sramecc+\"}]}";
    fake.answers[1].reply = "{\"started\":true}";
    fake.answers[2].reply = PULL("runs");
    fake.answers[3].reply = PULL("done");
    assert_int_equal(RUN(&f->run, "fleet", "pull", "--size", "1MiB"), KILN_E_OK);
    assert_string_equal(fake.requests[1], "fleet_pull {\"targets\":[\"gfx90a:sramecc+\"],"
                                          "\"used\":true,\"bytes_max\":1048576}");
    assert_int_equal(naps, 1);
    assert_says(f->run.printed, "7 kernels copied");
}

TEST_F(kilnctl_fleet, a_pull_that_reaches_its_limit_says_so)
{
    fake.answers[0].reply = "{\"started\":true}";
    fake.answers[1].reply = PULL("limit");
    assert_int_equal(RUN(&f->run, "fleet", "pull", "--target", "gfx90a"), KILN_E_FULL);
    assert_says(f->run.err.text, "--size");
}

TEST_F(kilnctl_fleet, files_that_no_host_needs_are_listed)
{
    char lease[600];
    const struct timespec long_ago[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    snprintf(lease, sizeof(lease), "%.500s/v1/l/probe/0123456789abcdef", f->tree);
    put_record(f, "gfx90a", 1);
    assert_int_equal(push(f, "{}"), KILN_E_OK);
    must(fs_make_directories_mode(lease, 0755, &f->err), f->err);
    assert_int_equal(rmdir(lease), 0);
    must(fs_replace_file(lease, bytes_of_text("x"), 0600, &f->err), f->err);
    assert_int_equal(utimensat(AT_FDCWD, lease, long_ago, 0), 0);
    assert_int_equal(RUN(&f->run, "fleet", "gc", "--dry-run", "--trust", f->trust, f->tree),
                     KILN_E_OK);
    assert_says(f->run.printed, "v1/l/probe/0123456789abcdef");
    assert_says(f->run.printed, "nothing was deleted");
    assert_says(f->run.printed, "kept: 1 loose");
    f->run.common.json = true;
    assert_int_equal(RUN(&f->run, "fleet", "gc", "--trust", f->trust, f->tree), KILN_E_OK);
    assert_says(f->run.printed, "\"kind\":\"lease\"");
    assert_int_not_equal(access(lease, F_OK), 0);
}

TEST_F(kilnctl_fleet, a_file_without_kernels_is_refused)
{
    buffer_put(&f->records, "rubbish", 7);
    assert_int_equal(push(f, "{}"), KILN_E_CORRUPT);
}
