/* SPDX-License-Identifier: MIT */
/* One user attacks another, as listed in docs/security.md. */
#include "tests/integration/attack_steps.h"

#include <kiln/kiln.h>

#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONNECTIONS_MAX 8
#define RECORDS_MAX 3
#define LEASES_MAX_UID 512
#define TIER_HOST 2
#define TIER_USER 3
#define VICTIMS_SOLVER "VictimsSolver"
#define FORGET_OWN "{\"all\":true,\"tier\":\"user\"}"

SET_UP_OF(set_up_group, struct attack_setting)
{
    static const char *const arguments[] = { "--connections-per-uid=8", "--queue-per-uid=4",
                                             "--tuning-records-per-uid=3",
                                             "--cache-limit-per-uid=300KiB", NULL };
    attack_begin(f, arguments);
}

TEST_PROGRAM(set_up_group, NULL)

static int tear_down(void **state)
{
    struct attack_setting *a = *state;
    if (a->daemon.pid)
        attack_ask(a->admin, MESSAGE_clear, "{\"all\":true}", NULL);
    return attack_disconnect(state);
}

FIXTURE(attack, attack_connect, tear_down);

static void victim_imports(struct attack_setting *a)
{
    assert_int_equal(attack_import(a->victim, &a->own), KILN_OK);
    struct attack_result got = attack_fetch_name(a->victim, SECRET_PROGRAM, SECRET_ARGS);
    assert_int_equal(got.code, KILN_OK);
    memcpy(a->key, got.key, sizeof(a->key));
}

static unsigned long long stat_of(struct attack_setting *a, const char *name)
{
    KILN_AUTO(json) struct json *stats = raw_ask(a->admin, MESSAGE_stats, "");
    return stats_number(stats, name);
}

TEST(attack, a_kernel_the_attacker_imports_is_served_to_the_attacker_alone)
{
    struct attack_setting *a = *state;
    need_root();
    assert_int_equal(attack_import(a->attacker, &a->forged), KILN_OK);
    struct attack_result forged = attack_fetch_name(a->attacker, SECRET_PROGRAM, SECRET_ARGS);
    assert_int_equal(forged.size, 21000);

    assert_int_equal(attack_fetch_name(a->victim, SECRET_PROGRAM, SECRET_ARGS).code,
                     KILN_NOT_FOUND);
    assert_int_equal(attack_fetch(a->victim, forged.key).code, KILN_NOT_FOUND);
    assert_int_equal(attack_fetch_name(a->admin, SECRET_PROGRAM, SECRET_ARGS).code, KILN_NOT_FOUND);
    victim_imports(a);
    assert_int_equal(attack_fetch_name(a->victim, SECRET_PROGRAM, SECRET_ARGS).size, 20000);
    assert_int_equal(attack_fetch_name(a->attacker, SECRET_PROGRAM, SECRET_ARGS).size, 21000);
}

TEST(attack, a_user_cannot_import_for_everyone)
{
    struct attack_setting *a = *state;
    char text[512];
    need_root();
    assert_int_equal(attack_ask_file(a->attacker, MESSAGE_kernel_import,
                                     "{\"name\":\"" CACHE_NAME "\",\"for_all\":true}",
                                     a->forged.path),
                     KILN_DENIED);
    assert_int_equal(attack_ask_file(a->attacker, MESSAGE_package_install,
                                     "{\"name\":\"gfx906_60.kdb\"}", a->forged.path),
                     KILN_DENIED);
    assert_int_equal(attack_ask(a->attacker, MESSAGE_package_install,
                                "{\"url\":\"http://127.0.0.1:9/gfx906_60.kdb\"}", text),
                     KILN_DENIED);
    assert_says(text, "kiln-admin");
    assert_int_equal(attack_put(a->attacker, 1, TIER_HOST, "SolverX", 0.001), KILN_DENIED);
    assert_int_equal(attack_ask_file(a->attacker, MESSAGE_tuning_import,
                                     "{\"name\":\"gfx906_60.HIP.fdb.txt\",\"tier\":\"system\"}",
                                     a->forged.path),
                     KILN_DENIED);
    attack_get(a->victim, 1, text);
    assert_string_equal(text, "");
}

/* Sends compile_end with a forged object, as if it was the compile's result for the key |hex|. */
static void send_result(int fd, const char *hex)
{
    static struct raw_frame frame;
    struct message_compile_end m = { .target = bytes_of_text("gfx90a") };
    BUFFER_AUTO struct buffer body;
    int file = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(file, "forged", 6), 6);
    assert_true(digest_from_hex(hex, &m.key));
    buffer_init(&body, LIMIT_FRAME_BODY);
    message_compile_end_write(&body, &m);
    raw_send_files(fd, &(struct raw_message){ MESSAGE_compile_end, 9, buffer_view(&body), 1 },
                   &file, 1);
    raw_receive_last(fd, &frame);
    raw_close_descriptors(&frame);
    assert_int_equal(frame.header.type, MESSAGE_recorded);
    close(file);
}

/* compile_end is the only request with both a key and an object. kilnd does not store that object
 * under the key of the request, but under a key that contains the user's uid. */
TEST(attack, no_request_stores_an_object_under_a_key)
{
    struct attack_setting *a = *state;
    char text[512];
    need_root();
    for (unsigned type = 1; type < 256; type++) {
        if (*message_name((uint16_t)type) && strcmp(message_name((uint16_t)type), "unknown") != 0)
            continue;
        raw_send_frame(a->attacker, type, 3, bytes_of_text("{}"));
        raw_expect_error(a->attacker, KILN_INVALID, "request type");
    }
    struct attack_result compiled = attack_fetch_source(a->victim, 71);
    struct attack_result found = attack_fetch_source(a->attacker, 71);
    assert_int_equal(compiled.code, KILN_OK);
    assert_true(digest_equal(&compiled.object, &found.object));
    assert_int_equal(found.tier, TIER_HOT);
    send_result(a->attacker, compiled.key);
    found = attack_fetch(a->attacker, compiled.key);
    assert_int_equal(found.code, KILN_OK);
    assert_true(digest_equal(&compiled.object, &found.object));
    found = attack_fetch(a->victim, compiled.key);
    assert_true(digest_equal(&compiled.object, &found.object));
    assert_int_equal(attack_ask(a->attacker, MESSAGE_kernel_import, "{\"name\":\"x.ukdb\"}", text),
                     KILN_INVALID);
}

static int see_mode(const char *path, const struct stat *seen, int type, struct FTW *place)
{
    (void)place;
    if (type != FTW_SL && (seen->st_mode & (S_IWGRP | S_IWOTH)))
        fail_msg("others may write '%s', mode %o", path, (unsigned)seen->st_mode);
    return 0;
}

TEST(attack, other_users_cannot_write_to_the_directories_of_kilnd)
{
    static const char *const directories[] = { "cache", "state" };
    struct attack_setting *a = *state;
    need_root();
    for (size_t i = 0; i < 2; i++) {
        char path[256];
        snprintf(path, sizeof(path), "%s/%s", a->daemon.directory, directories[i]);
        assert_int_equal(nftw(path, see_mode, 16, FTW_PHYS), 0);
    }
}

TEST(attack, the_attacker_cannot_drop_unpin_or_cool_kernels_of_others)
{
    struct attack_setting *a = *state;
    static const struct {
        enum message_type type;
        const char *json;
    } denied[] = {
        { MESSAGE_clear, "{\"all\":true}" },
        { MESSAGE_clear, "{\"uid\":45001}" },
        { MESSAGE_clear, "{\"name\":\"" SECRET_PROGRAM "\",\"dry_run\":true}" },
        { MESSAGE_gc, "{\"to_bytes\":0}" },
        { MESSAGE_kernel_pin, "{\"target\":\"gfx90a\",\"pin\":false}" },
        { MESSAGE_package_remove, "{\"name\":\"x.kdb\"}" },
        { MESSAGE_package_verify, "{\"name\":\"x.kdb\"}" },
        { MESSAGE_tuning_vacuum, "" },
        { MESSAGE_tuning_backup, "" },
        { MESSAGE_tuning_promote, "" },
        { MESSAGE_tuning_remove, "{\"all\":true,\"tier\":\"host\"}" },
        { MESSAGE_tuning_remove, "{\"all\":true,\"tier\":\"user\",\"uid\":45001}" },
    };
    char question[128], text[512];
    need_root();
    victim_imports(a);
    struct attack_result shared = attack_fetch_source(a->victim, 72);
    assert_int_equal(attack_put(a->victim, 2, TIER_USER, VICTIMS_SOLVER, 1), KILN_OK);
    for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++) {
        enum kiln_code code = attack_ask(a->attacker, denied[i].type, denied[i].json, text);
        if (code != KILN_DENIED)
            fail_msg("%s %s: code %d, '%s'", message_name(denied[i].type), denied[i].json, code,
                     text);
    }
    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", shared.key);
    assert_int_equal(attack_ask(a->attacker, MESSAGE_kernel_remove, question, NULL), KILN_DENIED);
    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", a->key);
    assert_int_equal(attack_ask(a->attacker, MESSAGE_kernel_remove, question, NULL),
                     KILN_NOT_FOUND);
    assert_int_equal(attack_ask(a->attacker, MESSAGE_tuning_remove, FORGET_OWN, NULL), KILN_OK);
    assert_int_equal(attack_import(a->attacker, &a->forged), KILN_OK);
    assert_int_equal(attack_ask(a->attacker, MESSAGE_clear, "{\"own\":true}", text), KILN_OK);
    assert_says(text, "\"kernels\":1");

    assert_int_equal(attack_fetch_name(a->victim, SECRET_PROGRAM, SECRET_ARGS).tier, TIER_HOT);
    assert_int_equal(attack_fetch(a->victim, shared.key).tier, TIER_HOT);
    attack_get(a->victim, 2, text);
    assert_says(text, VICTIMS_SOLVER);
    assert_int_equal(attack_ask(a->victim, MESSAGE_tuning_remove, FORGET_OWN, NULL), KILN_OK);
}

static void report_no_secret(struct attack_setting *a, enum message_type type, const char *json)
{
    char beginning[17] = "";
    memcpy(beginning, a->key, sizeof(beginning) - 1);
    const char *const secrets[] = { beginning, SECRET_PROGRAM, "VICTIMS_SECRET", VICTIMS_SOLVER };
    size_t size;
    KILN_AUTO(mem) char *answer = attack_answer(a->attacker, type, json, &size);
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        bool is_asked = strstr(json, secrets[i]); /* the answer may repeat words of the request */
        if (!is_asked && memmem(answer, size, secrets[i], strlen(secrets[i])))
            fail_msg("'%s' %s tells '%s': %.400s", message_name(type), json, secrets[i], answer);
    }
}

#define PROBLEM_LINE "conv -n 2 -c 4 -H 8 -W 8 -k 8 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -F 1"

TEST(attack, the_attacker_learns_nothing_private_of_the_victim)
{
    struct attack_setting *a = *state;
    static const struct {
        enum message_type type;
        const char *json;
    } questions[] = {
        { MESSAGE_kernel_list, "" },
        { MESSAGE_kernel_list, "{\"count\":1}" },
        { MESSAGE_kernel_list, "{\"program\":\"" SECRET_PROGRAM "\"}" },
        { MESSAGE_kernel_list, "{\"database_id\":\"" DEVICE "\"}" },
        { MESSAGE_kernel_export, "" },
        { MESSAGE_kernel_export, "{\"database_id\":\"" DEVICE "\"}" },
        { MESSAGE_stats, "" },
        { MESSAGE_status, "" },
        { MESSAGE_metrics, "" },
        { MESSAGE_health, "" },
        { MESSAGE_activity, "" },
        { MESSAGE_accounting, "{\"by\":\"uid\"}" },
        { MESSAGE_accounting, "{\"by\":\"program\"}" },
        { MESSAGE_accounting, "{\"by\":\"target\"}" },
        { MESSAGE_history, "{\"slowest\":100}" },
        { MESSAGE_why_miss, "{\"name\":\"" SECRET_PROGRAM "\",\"args\":\"\",\"database_id\":"
                            "\"" DEVICE "\"}" },
        { MESSAGE_tuning_show,
          "{\"problem\":\"" PROBLEM_LINE "\",\"database_id\":\"" DEVICE "\"}" },
        { MESSAGE_tuning_export, "{\"tier\":\"user\"}" },
        { MESSAGE_tuning_export, "{\"tier\":\"user\",\"merged\":true}" },
        { MESSAGE_tuning_diff, "{\"kind\":\"find\",\"database_id\":\"" DEVICE
                               "\",\"a_tier\":\"user\",\"b_tier\":\"host\"}" },
        { MESSAGE_tuning_diff, "{\"kind\":\"find\",\"database_id\":\"" DEVICE
                               "\",\"a_tier\":\"user\",\"b_tier\":\"host\",\"uid\":45001}" },
        { MESSAGE_tuning_verify, "{\"driver\":\"9.9.9\"}" },
        { MESSAGE_tuning_stats, "" },
    };
    need_root();
    victim_imports(a);
    assert_int_equal(attack_put(a->victim, 2, TIER_USER, VICTIMS_SOLVER, 1), KILN_OK);
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
        report_no_secret(a, questions[i].type, questions[i].json);
    for (const char *digit = "0123456789abcdef"; *digit; digit++) {
        char question[64];
        snprintf(question, sizeof(question), "{\"key\":\"%c\"}", *digit);
        report_no_secret(a, MESSAGE_kernel_show, question);
    }
    char text[512];
    attack_get(a->attacker, 2, text);
    assert_string_equal(text, "");
    attack_get(a->victim, 2, text);
    assert_says(text, VICTIMS_SOLVER);
    assert_int_equal(attack_ask(a->victim, MESSAGE_tuning_remove, FORGET_OWN, NULL), KILN_OK);
}

/* kilnd sends each event to all subscribers, so a change to private kernels must cause none. */
TEST(attack, changes_to_the_victims_private_kernels_make_no_event)
{
    struct attack_setting *a = *state;
    static struct raw_frame frame;
    need_root();
    raw_send_frame(a->attacker, MESSAGE_events, 4, bytes_of_text(""));
    assert_true(raw_receive(a->attacker, &frame));
    victim_imports(a);
    assert_int_equal(attack_ask(a->victim, MESSAGE_clear, "{\"own\":true}", NULL), KILN_OK);
    assert_int_equal(attack_ask(a->admin, MESSAGE_clear, "{\"all\":true}", NULL), KILN_OK);

    assert_true(raw_receive(a->attacker, &frame)); /* the first event is the administrator's */
    assert_non_null(memmem(frame.body, frame.header.body_size, "cleared", 7));
    raw_expect_pong(a->attacker);
}

TEST(attack, a_guessed_key_is_answered_like_an_absent_one)
{
    struct attack_setting *a = *state;
    char wrong[DIGEST_HEX_SIZE], question[128], texts[2][512];
    need_root();
    victim_imports(a);
    /* An administrator's clear also empties the hot set, even if its filter matches no kernel. */
    assert_int_equal(attack_ask(a->admin, MESSAGE_clear, "{\"target\":\"gfx1030\"}", NULL),
                     KILN_OK);
    assert_int_equal(stat_of(a, "hot_objects"), 0);
    memcpy(wrong, a->key, sizeof(wrong));
    wrong[10] = wrong[10] == '0' ? '1' : '0';
    const char *const keys[] = { a->key, wrong };
    struct attack_result got[2];
    unsigned long long hot = stat_of(a, "hot_bytes");
    for (size_t i = 0; i < 2; i++) {
        got[i] = attack_fetch(a->attacker, keys[i]);
        assert_string_equal(got[i].key, keys[i]);
        assert_int_equal(stat_of(a, "hot_bytes"), hot);
        snprintf(question, sizeof(question), "{\"key\":\"%s\"}", keys[i]);
        attack_ask(a->attacker, MESSAGE_why_miss, question, texts[i]);
        const char *shown = strstr(texts[i], "\"message\"");
        assert_non_null(shown);
        memmove(texts[i], shown, strlen(shown) + 1);
        assert_int_equal(attack_ask(a->attacker, MESSAGE_kernel_show, question, NULL),
                         KILN_NOT_FOUND);
    }
    assert_int_equal(got[0].code, KILN_NOT_FOUND);
    assert_int_equal(got[1].code, KILN_NOT_FOUND);
    assert_int_equal(got[0].tier, got[1].tier);
    assert_int_equal(got[0].size, got[1].size);
    assert_int_equal(got[0].answer_size, got[1].answer_size);
    assert_string_equal(texts[0], texts[1]);
}

TEST(attack, a_lease_is_neither_reported_nor_taken_by_another)
{
    struct attack_setting *a = *state;
    char text[512];
    need_root();
    struct attack_lease held = attack_lease_take(a->victim, 5);
    assert_int_equal(held.state, LEASE_RESULT_GRANTED);

    assert_int_equal(attack_lease_report(a->attacker, &held).code, KILN_NOT_FOUND);
    struct attack_lease other = attack_lease_take(a->attacker, 5);
    assert_int_equal(other.state, LEASE_RESULT_GRANTED);
    /* Every lease begins with candidate 0, so this lease does not continue the victim's lease. */
    assert_int_equal(other.first, 0);
    assert_true(other.id != held.id);
    assert_int_equal(attack_lease_report(a->attacker, &other).code, KILN_OK);
    close(a->attacker);
    a->attacker = raw_greeted_as(&a->daemon, ATTACKER);

    struct attack_lease next = attack_lease_report(a->victim, &held);
    assert_int_equal(next.code, KILN_OK);
    assert_int_equal(next.state, LEASE_RESULT_GRANTED);
    assert_int_equal(next.id, held.id);
    attack_get(a->victim, 5, text);
    assert_string_equal(text, "");
}

TEST(attack, connections_of_one_user_leave_capacity_for_others)
{
    struct attack_setting *a = *state;
    int held[CONNECTIONS_MAX];
    need_root();
    for (size_t i = 1; i < CONNECTIONS_MAX; i++)
        held[i] = raw_greeted_as(&a->daemon, ATTACKER);
    int refused = raw_connect_as(&a->daemon, ATTACKER);
    raw_expect_error(refused, KILN_BUSY, "connections_per_uid");
    raw_expect_closed(refused);
    close(refused);
    int served = raw_greeted_as(&a->daemon, VICTIM);
    raw_expect_pong(served);
    close(served);
    for (size_t i = 1; i < CONNECTIONS_MAX; i++)
        close(held[i]);
}

static unsigned count_results(int fd, unsigned count, enum kiln_code wanted)
{
    static struct raw_frame frame;
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++) {
        char text[512];
        raw_receive_last(fd, &frame);
        raw_close_descriptors(&frame);
        found += raw_refusal(&frame, text) == wanted;
    }
    return found;
}

#define QUEUED 12

TEST(attack, the_queue_of_one_user_leaves_capacity_for_others)
{
    struct attack_setting *a = *state;
    const char *source = "extern \"C\" __attribute__((global)) void k(float *y) { *y = N; }\n";
    char options[32];
    need_root();
    assert_int_equal(attack_ask(a->admin, MESSAGE_toolchains, "{\"probe\":[\"gfx90a\"]}", NULL),
                     KILN_OK);
    assert_int_equal(attack_fetch_source(a->admin, 73).code, KILN_OK);
    daemon_process_signal_workers(&a->daemon, SIGSTOP);
    for (unsigned i = 0; i < QUEUED; i++) {
        snprintf(options, sizeof(options), "-DN=%u", 500 + i);
        raw_send_source(a->attacker, 100 + i, "gfx90a", options, bytes_of_text(source));
    }
    raw_send_source(a->victim, 100, "gfx90a", "-DN=600", bytes_of_text(source));
    raw_expect_pong(a->victim);
    daemon_process_signal_workers(&a->daemon, SIGCONT);

    assert_int_equal(count_results(a->victim, 1, KILN_OK), 1);
    unsigned refused = count_results(a->attacker, QUEUED, KILN_BUSY);
    assert_in_range(refused, 1, QUEUED - 4);
}

TEST(attack, records_of_one_user_leave_capacity_for_others)
{
    struct attack_setting *a = *state;
    need_root();
    for (uint32_t n = 0; n < RECORDS_MAX; n++)
        assert_int_equal(attack_put(a->attacker, 20 + n, TIER_USER, "SolverX", 1), KILN_OK);
    assert_int_equal(attack_put(a->attacker, 40, TIER_USER, "SolverX", 1), KILN_FULL);
    assert_int_equal(attack_put(a->victim, 40, TIER_USER, "SolverX", 1), KILN_OK);
    assert_int_equal(attack_ask(a->victim, MESSAGE_tuning_remove, FORGET_OWN, NULL), KILN_OK);
    assert_int_equal(attack_ask(a->attacker, MESSAGE_tuning_remove, FORGET_OWN, NULL), KILN_OK);
}

TEST(attack, leases_of_one_user_leave_capacity_for_others)
{
    struct attack_setting *a = *state;
    need_root();
    for (uint32_t n = 0; n < LEASES_MAX_UID; n++)
        assert_int_equal(attack_lease_take(a->attacker, 100 + n).code, KILN_OK);
    assert_int_equal(attack_lease_take(a->attacker, 99).code, KILN_BUSY);
    assert_int_equal(attack_lease_take(a->victim, 99).state, LEASE_RESULT_GRANTED);
}

TEST(attack, kernels_of_one_user_leave_capacity_for_others)
{
    struct attack_setting *a = *state;
    need_root();
    victim_imports(a);
    assert_int_equal(attack_import(a->attacker, &a->large), KILN_FULL);
    assert_int_equal(attack_fetch_name(a->victim, SECRET_PROGRAM, SECRET_ARGS).code, KILN_OK);
    assert_int_equal(attack_import(a->victim, &a->own), KILN_OK);
}

TEST(attack, the_overflow_uid_is_served_but_has_no_private_data)
{
    struct attack_setting *a = *state;
    char text[512];
    need_root();
    struct attack_result shared = attack_fetch_source(a->victim, 74);
    int fd = raw_greeted_as(&a->daemon, NOBODYS);
    assert_int_equal(attack_fetch_source(fd, 74).tier, TIER_HOT);
    assert_int_equal(attack_fetch(fd, shared.key).code, KILN_OK);
    assert_int_equal(attack_import(fd, &a->forged), KILN_DENIED);
    assert_int_equal(attack_put(fd, 1, TIER_USER, "SolverX", 1), KILN_DENIED);
    assert_int_equal(attack_lease_take(fd, 1).code, KILN_DENIED);
    assert_int_equal(attack_ask(fd, MESSAGE_clear, "{\"all\":true}", NULL), KILN_DENIED);
    assert_int_equal(attack_ask(fd, MESSAGE_tuning_remove, FORGET_OWN, text), KILN_DENIED);
    assert_says(text, "uid 65534");
    close(fd);
}

static int attack_by_library(const struct attack_setting *a)
{
    const struct kiln_client_options options = { .size = sizeof(options),
                                                 .socket_path = a->daemon.socket };
    struct kiln_client *client = NULL;
    struct kiln_kernel *kernel = NULL;
    char *json = NULL;
    if (setgroups(0, NULL) < 0 || setresgid(ATTACKER, ATTACKER, ATTACKER) < 0 ||
        setresuid(ATTACKER, ATTACKER, ATTACKER) < 0 || kiln_client_open(&options, &client, NULL))
        return 1;
    if (kiln_kernel_fetch(client, a->key, 0, &kernel, NULL) != KILN_E_NOT_FOUND)
        return 2;
    const struct kiln_kernel_name name = {
        .size = sizeof(name), .database_id = DEVICE, .name = SECRET_PROGRAM, .args = SECRET_ARGS
    };
    if (kiln_kernel_fetch_named(client, &name, &kernel, NULL) != KILN_E_NOT_FOUND)
        return 3;
    const struct kiln_admin_call call = { .size = sizeof(call),
                                          .request = "clear",
                                          .json = "{\"all\":true}" };
    if (kiln_admin_call(client, &call, &json, NULL) != KILN_E_DENIED)
        return 4;
    kiln_client_close(client);
    return 0;
}

TEST(attack, libkiln_gets_no_private_data_either)
{
    struct attack_setting *a = *state;
    need_root();
    victim_imports(a);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(attack_by_library(a));
    assert_int_equal(wait_program(pid), 0);
    assert_int_equal(attack_fetch_name(a->victim, SECRET_PROGRAM, SECRET_ARGS).code, KILN_OK);
}
