/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "cli/kilnctl/doctor_daemon.h"
#include "cli/kilnctl/doctor_directories.h"
#include "cli/kilnctl/doctor_socket.h"
#include "cli/kilnctl/doctor_toolchains.h"
#include "cli/kilnctl/doctor_units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The errno with which fs_read_file fails, such as EACCES for another user's settings. 0 means that
 * fs_read_file succeeds. */
static int opens_fail_with;
WRAP(enum kiln_code, fs_read_file, const char *path, size_t limit, struct buffer *ret_content,
     struct kiln_err *err)
{
    return opens_fail_with ? kiln_fail_errno(err, opens_fail_with, "cannot open '%s'", path)
                           : __real_fs_read_file(path, limit, ret_content, err);
}

struct fixture {
    struct findings findings;
    struct socket_facts socket;
    struct directory_facts directory;
};

SET_UP(set_up)
{
    f->socket = (struct socket_facts){ .path = "/run/kiln/kilnd.sock",
                                       .is_system = true,
                                       .mode = S_IFSOCK | 0660,
                                       .gid = 990,
                                       .owner = "root",
                                       .group = "kiln",
                                       .has_group = true,
                                       .user = "ada",
                                       .euid = 1000 };
    f->directory = (struct directory_facts){ .what = "cache",
                                             .path = "/var/cache/kiln",
                                             .bytes = 100ull << 30,
                                             .free_bytes = 50ull << 30,
                                             .database_bytes = 5ull << 30,
                                             .inodes = 1000000,
                                             .free_inodes = 900000 };
}

FIXTURE(kilnctl_doctor, set_up, NULL);

static struct json *read_json(const char *text)
{
    struct json *j = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    must(json_parse(bytes_of_text(text), "a test's text", &j, &err), err);
    return j;
}

static const struct finding *only_finding(const struct fixture *f, enum verdict verdict)
{
    const struct finding *found = NULL;
    for (size_t i = 0; i < f->findings.count; i++) {
        if (f->findings.items[i].verdict != verdict)
            continue;
        assert_null(found);
        found = &f->findings.items[i];
    }
    assert_non_null(found);
    return found;
}

static void expect_finding(const struct fixture *f, enum verdict verdict, const char *what,
                           const char *advice)
{
    const struct finding *found = only_finding(f, verdict);
    assert_says(found->what, what);
    assert_says(found->advice, advice);
}

/* ---- socket ---- */

TEST_F(kilnctl_doctor, a_usable_socket_is_ok)
{
    assert_true(socket_judge(&f->socket, &f->findings));
    assert_int_equal(findings_count(&f->findings, VERDICT_OK), 2);
}

TEST_F(kilnctl_doctor, the_message_about_a_missing_socket_says_how_to_start_the_installed_units)
{
    f->socket.stat_errno = ENOENT;
    f->socket.has_unit = true;
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "'/run/kiln/kilnd.sock'", "enable --now");
}

TEST_F(kilnctl_doctor, the_message_about_a_missing_socket_names_the_users_socket_too)
{
    f->socket.stat_errno = ENOENT;
    snprintf(f->socket.own, sizeof(f->socket.own), "/run/user/1000/kiln/kilnd.sock");
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "'/run/user/1000/kiln/kilnd.sock'", "kilnd &");
    f->findings.count = 0;
    f->socket.no_runtime = true;
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "of your", "XDG_RUNTIME_DIR=DIR");
    f->findings.count = 0;
    f->socket.euid = 0; /* root uses the system's socket */
    assert_false(socket_judge(&f->socket, &f->findings));
    assert_null(strstr(only_finding(f, VERDICT_FAIL)->what, "your own"));
}

TEST_F(kilnctl_doctor, the_message_about_a_users_missing_socket_says_how_to_start_kilnd)
{
    f->socket = (struct socket_facts){ .path = "/tmp/x.sock",
                                       .stat_errno = ENOENT,
                                       .elsewhere = "/run/kiln/kilnd.sock" };
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "/tmp/x.sock", "--socket /tmp/x.sock");
    assert_says(only_finding(f, VERDICT_FAIL)->advice, "/run/kiln/kilnd.sock");
}

TEST_F(kilnctl_doctor, the_message_to_a_user_outside_the_group_names_the_group)
{
    f->socket.connect_errno = EACCES;
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "group kiln", "usermod -aG");
}

TEST_F(kilnctl_doctor, a_user_added_to_the_group_after_login_is_advised_to_log_in_again)
{
    f->socket.connect_errno = EACCES;
    f->socket.in_group_file = true;
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "logged in", "newgrp kiln");
}

TEST_F(kilnctl_doctor, a_socket_of_another_user_alone_is_reported_as_that)
{
    f->socket.connect_errno = EACCES;
    f->socket.mode = S_IFSOCK | 0600;
    f->socket.uid = 1001;
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "mode 0600", "as ada");
}

static void give_to_group_root(struct fixture *f)
{
    f->findings.count = 0;
    f->socket.gid = 0;
    snprintf(f->socket.group, sizeof(f->socket.group), "root");
}

TEST_F(kilnctl_doctor, a_socket_of_group_root_is_opened_by_a_group_of_its_own)
{
    give_to_group_root(f);
    f->socket.connect_errno = EACCES;
    f->socket.has_group = false;
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "user root", "groupadd --system");
    assert_null(strstr(only_finding(f, VERDICT_FAIL)->advice, "-aG root"));
    f->findings.count = 0;
    /* The group has been created since kilnd started. */
    f->socket.has_group = f->socket.in_group_file = true;
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "user root", "log in");
    assert_null(strstr(only_finding(f, VERDICT_FAIL)->advice, "groupadd"));
    assert_null(strstr(only_finding(f, VERDICT_FAIL)->advice, "-aG root"));
}

TEST_F(kilnctl_doctor, a_socket_that_only_root_can_use_causes_a_warning)
{
    f->socket.euid = 0;
    assert_true(socket_judge(&f->socket, &f->findings));
    assert_int_equal(findings_count(&f->findings, VERDICT_WARN), 0);
    give_to_group_root(f);
    f->socket.has_group = false;
    assert_true(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_WARN, "only root", "groupadd --system");
    f->findings.count = 0;
    f->socket.is_system = false; /* as if root had created the socket at another path */
    assert_true(socket_judge(&f->socket, &f->findings));
    assert_int_equal(findings_count(&f->findings, VERDICT_WARN), 0);
}

TEST_F(kilnctl_doctor, a_socket_without_a_listener_is_reported_separately)
{
    f->socket.connect_errno = ECONNREFUSED;
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "killed", "kilnd");
}

TEST_F(kilnctl_doctor, a_path_that_is_not_a_socket_or_not_reachable_is_reported)
{
    f->socket.mode = S_IFREG | 0644;
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "not a", "--socket");
    f->findings.count = 0;
    f->socket.stat_errno = EACCES;
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "may not", "chmod 755");
}

TEST_F(kilnctl_doctor, doctor_does_not_advise_opening_another_users_directory)
{
    f->socket = (struct socket_facts){ .path = "/home/bob/kiln/kilnd.sock",
                                       .user = "ada",
                                       .stat_errno = EACCES };
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "may not", "unset KILN_SOCKET");
    assert_says(only_finding(f, VERDICT_FAIL)->advice, "kilnd &");
    assert_null(strstr(only_finding(f, VERDICT_FAIL)->advice, "chmod"));
}

static void expect_security_module(struct fixture *f)
{
    f->findings.count = 0;
    f->socket.connect_errno = EACCES;
    assert_false(socket_judge(&f->socket, &f->findings));
    expect_finding(f, VERDICT_FAIL, "SELinux", "ausearch");
    assert_says(only_finding(f, VERDICT_FAIL)->what, "SELinux");
    assert_says(only_finding(f, VERDICT_FAIL)->what, "AppArmor");
}

TEST_F(kilnctl_doctor, a_refusal_despite_the_mode_names_security_modules)
{
    f->socket.in_group = f->socket.in_group_file = true;
    expect_security_module(f);
    f->socket.in_group = f->socket.in_group_file = false;
    f->socket.mode = S_IFSOCK | 0666;
    expect_security_module(f);
    f->socket.mode = S_IFSOCK | 0600;
    f->socket.uid = f->socket.euid;
    expect_security_module(f);
    f->socket.uid = 1001;
    f->socket.euid = 0;
    expect_security_module(f);
}

/* ---- directories ---- */

TEST_F(kilnctl_doctor, a_local_disk_with_free_space_is_ok)
{
    directory_judge(&f->directory, &f->findings);
    expect_finding(f, VERDICT_OK, "50.0 GiB", "");
}

TEST_F(kilnctl_doctor, a_network_filesystem_names_the_setting)
{
    snprintf(f->directory.network, sizeof(f->directory.network), "nfs");
    snprintf(f->directory.setting, sizeof(f->directory.setting),
             "cache_dir in /etc/kiln/kilnd.json");
    directory_judge(&f->directory, &f->findings);
    expect_finding(f, VERDICT_FAIL, "(nfs)", "/etc/kiln/kilnd.json");
}

TEST_F(kilnctl_doctor, a_disk_that_is_read_only_full_or_without_inodes_fails)
{
    f->directory.read_only = true;
    directory_judge(&f->directory, &f->findings);
    expect_finding(f, VERDICT_FAIL, "read-only", "fsck");
    f->findings.count = 0;
    f->directory.read_only = false;
    f->directory.free_bytes = 4096;
    directory_judge(&f->directory, &f->findings);
    expect_finding(f, VERDICT_FAIL, "disk is", "df -h");
    assert_says(only_finding(f, VERDICT_FAIL)->advice, "clear --all");
    assert_says(only_finding(f, VERDICT_FAIL)->advice, "--to 2560M");
    f->findings.count = 0;
    f->directory.free_bytes = 50ull << 30;
    f->directory.free_inodes = 3;
    directory_judge(&f->directory, &f->findings);
    expect_finding(f, VERDICT_FAIL, "3 inodes", "df -i");
}

TEST(kilnctl_doctor, unreadable_settings_do_not_hide_the_directories)
{
    struct directory_facts facts[2];
    struct kiln_error err = { 0 };
    memset(facts, 0, sizeof(facts));
    opens_fail_with = EACCES;
    int rc = directory_facts_gather("/etc/hostname", true, facts, &err);
    opens_fail_with = 0;
    assert_int_equal(rc, KILN_E_DENIED);
    assert_says(err.text, "/etc/hostname");
    assert_string_equal(facts[0].path, "/var/cache/kiln");
    assert_true(facts[0].bytes > 0);
    assert_string_equal(facts[1].what, "state");
}

TEST(kilnctl_doctor, further_settings_that_cannot_be_listed_are_an_error)
{
    char path[200], pid[16];
    struct directory_facts facts[2];
    struct kiln_error err = { 0 };
    const char *directory = test_directory();
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    test_setenv("SYSTEMD_EXEC_PID", pid);
    test_setenv("CONFIGURATION_DIRECTORY", directory);
    assert_int_equal(directory_facts_gather(NULL, false, facts, &err), KILN_E_OK);
    snprintf(path, sizeof(path), "%s/kilnd.json.d", directory);
    assert_int_equal(symlink(path, path), 0);
    assert_int_not_equal(directory_facts_gather(NULL, false, facts, &err), KILN_E_OK);
    assert_says(err.text, path);
}

TEST_F(kilnctl_doctor, an_almost_full_disk_causes_a_warning)
{
    f->directory.free_bytes = 500ull << 20;
    directory_judge(&f->directory, &f->findings);
    expect_finding(f, VERDICT_WARN, "500 MiB", "--to 2560M");
    f->findings.count = 0;
    f->directory.database_bytes = 0; /* kiln has no files, so gc could free no space */
    directory_judge(&f->directory, &f->findings);
    assert_null(strstr(only_finding(f, VERDICT_WARN)->advice, "kilnctl gc"));
}

TEST_F(kilnctl_doctor, a_filesystem_that_is_too_small_is_not_reported_as_full)
{
    f->directory.bytes = f->directory.free_bytes = 2u << 20;
    directory_judge(&f->directory, &f->findings);
    expect_finding(f, VERDICT_FAIL, "2.0 MiB", "16.0 MiB");
}

TEST_F(kilnctl_doctor, an_unknown_fuse_filesystem_causes_a_warning)
{
    snprintf(f->directory.fuse, sizeof(f->directory.fuse), "fuse.unheard-of");
    directory_judge(&f->directory, &f->findings);
    expect_finding(f, VERDICT_WARN, "(fuse.unheard-of)", "another machine");
    assert_int_equal(findings_count(&f->findings, VERDICT_OK), 1);
}

TEST_F(kilnctl_doctor, a_filesystem_without_a_limit_of_inodes_is_fine)
{
    f->directory.inodes = f->directory.free_inodes = 0;
    directory_judge(&f->directory, &f->findings);
    only_finding(f, VERDICT_OK);
}

static void judge_status(struct fixture *f, const char *text)
{
    KILN_AUTO(json) struct json *status = read_json(text);
    f->findings.count = 0;
    daemon_judge_status(status, &f->findings);
}

/* ---- systemd ---- */

#define UNIT(id, active, enabled)                                                 \
    "Id=" id "\nLoadState=loaded\nActiveState=" active "\nUnitFileState=" enabled \
    "\nResult=signal\n"

TEST_F(kilnctl_doctor, running_units_are_ok)
{
    units_judge(UNIT("kilnd.socket", "active", "enabled") "\n" UNIT("kilnd.service", "inactive",
                                                                    "disabled"),
                true, &f->findings);
    /* kilnd.service may be inactive, because kilnd.socket starts it. */
    assert_int_equal(findings_count(&f->findings, VERDICT_OK), 2);
}

TEST_F(kilnctl_doctor, a_failed_or_disabled_unit_is_reported_with_the_command_to_run)
{
    units_judge(UNIT("kilnd.socket", "inactive", "disabled") "\n" UNIT("kilnd.service", "failed",
                                                                       "enabled"),
                true, &f->findings);
    assert_int_equal(findings_count(&f->findings, VERDICT_FAIL), 2);
    assert_says(f->findings.items[0].advice, "enable --now");
    assert_says(f->findings.items[1].what, "failed (signal)");
    assert_says(f->findings.items[1].advice, "journalctl");
    assert_says(f->findings.items[1].advice, "kilnd.service");
}

TEST_F(kilnctl_doctor, a_socket_that_will_not_survive_a_reboot_causes_a_warning)
{
    units_judge(UNIT("kilnd.socket", "active", "disabled"), false, &f->findings);
    expect_finding(f, VERDICT_WARN, "reboot", "--user enable");
}

TEST_F(kilnctl_doctor, a_masked_unit_is_reported_with_unmask)
{
    units_judge("Id=kilnd.socket\nLoadState=masked\nActiveState=inactive\n\n"
                "Id=kilnd.service\nLoadState=masked\nActiveState=inactive\n",
                true, &f->findings);
    assert_int_equal(findings_count(&f->findings, VERDICT_FAIL), 2);
    assert_says(f->findings.items[0].advice, "unmask kilnd.socket && systemctl enable --now");
    assert_says(f->findings.items[1].advice, "unmask kilnd.service");
}

TEST_F(kilnctl_doctor, a_service_that_waits_for_its_next_restart_has_failed)
{
    units_judge("Id=kilnd.service\nLoadState=loaded\nActiveState=activating\n"
                "SubState=auto-restart\nResult=exit-code\nExecMainStatus=1\n",
                true, &f->findings);
    expect_finding(f, VERDICT_FAIL, "tries again (exit-code)", "journalctl");
}

/* After a failed start, systemd starts kilnd again. Until kilnd has read its settings, systemd
 * reports the service as "activating". */
TEST_F(kilnctl_doctor, a_service_that_starts_again_after_failures_has_failed)
{
    units_judge("Id=kilnd.service\nLoadState=loaded\nActiveState=activating\n"
                "SubState=start\nResult=success\nNRestarts=3\n",
                true, &f->findings);
    expect_finding(f, VERDICT_FAIL, "tries again (no reason", "journalctl");
    f->findings.count = 0;
    units_judge("Id=kilnd.service\nLoadState=loaded\nActiveState=activating\n"
                "SubState=start\nResult=success\nNRestarts=0\n",
                true, &f->findings);
    expect_finding(f, VERDICT_OK, "activating", "");
}

TEST_F(kilnctl_doctor, a_missing_user_of_the_service_is_named_as_the_reason)
{
    units_judge("Id=kilnd.service\nLoadState=loaded\nActiveState=activating\n"
                "SubState=auto-restart\nResult=exit-code\nExecMainStatus=217\n",
                true, &f->findings);
    expect_finding(f, VERDICT_FAIL, "exit-code", "systemd-sysusers");
}

TEST_F(kilnctl_doctor, a_deleted_socket_file_needs_a_restart)
{
    units_judge(UNIT("kilnd.socket", "active", "enabled") "Listen=/nonexistent/k.sock (Stream)\n",
                true, &f->findings);
    expect_finding(f, VERDICT_FAIL, "deleted", "restart kilnd.socket");
    f->findings.count = 0;
    units_judge(UNIT("kilnd.socket", "active", "enabled") "Listen=/ (Stream)\n", true,
                &f->findings);
    only_finding(f, VERDICT_OK);
}

TEST_F(kilnctl_doctor, stopped_sockets_of_compilers_and_transfers_fail_the_check)
{
    units_judge(UNIT("kiln-compiler.socket", "inactive",
                     "enabled") "\n" UNIT("kiln-transfer.socket", "inactive", "enabled"),
                true, &f->findings);
    assert_int_equal(findings_count(&f->findings, VERDICT_FAIL), 2);
    assert_says(f->findings.items[0].what, "compilers");
    assert_says(f->findings.items[1].what, "packages");
}

TEST_F(kilnctl_doctor, the_last_failed_start_is_quoted)
{
    units_judge_journal("cannot start: kernels.db belongs to root\nmore\n", &f->findings);
    expect_finding(f, VERDICT_FAIL, "kernels.db belongs to root", "");
    f->findings.count = 0;
    units_judge_journal("", &f->findings);
    assert_int_equal(f->findings.count, 0);
}

TEST(kilnctl_doctor, failed_starts_are_sought_by_the_id_under_which_kilnd_logs_them)
{
    static const struct {
        const char *name, *id;
    } events[] = {
#define LOG_EVENT(event, level, rate, id, ...) { #event, id },
#include "common/log/log_events.def"
#undef LOG_EVENT
    };
    size_t found = 0;
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        const char *id = NULL;
        if (strcmp(events[i].name, "start_failed") == 0)
            id = UNITS_START_FAILED_ID;
        else if (strcmp(events[i].name, "configuration_refused") == 0)
            id = UNITS_CONFIGURATION_REFUSED_ID;
        if (!id)
            continue;
        assert_string_equal(events[i].id, id);
        found++;
    }
    assert_int_equal(found, 2);
}

TEST_F(kilnctl_doctor, a_refused_reload_fails_the_check)
{
    judge_status(f, "{\"store\":{\"mode\":\"on\",\"health\":\"ok\"},"
                    "\"reload_refused\":\"kilnd.json: no such setting\"}");
    expect_finding(f, VERDICT_FAIL, "no such setting", "--check-config");
}

TEST_F(kilnctl_doctor, a_host_without_units_is_ok)
{
    units_judge("Id=kilnd.socket\nLoadState=not-found\nActiveState=inactive\n", true, &f->findings);
    expect_finding(f, VERDICT_OK, "by hand", "");
    f->findings.count = 0;
    units_judge("", true, &f->findings);
    units_judge("\n\n\nno=sense\n=\n", true, &f->findings);
    assert_int_equal(findings_count(&f->findings, VERDICT_OK), 2);
}

/* ---- answers of kilnd ---- */

TEST_F(kilnctl_doctor, versions_are_compared_without_the_programs_name)
{
    daemon_judge_version("0.1.0", "kilnd 0.1.0", &f->findings);
    only_finding(f, VERDICT_OK);
    daemon_judge_version("0.2.0", "kilnd 0.1.0", &f->findings);
    expect_finding(f, VERDICT_WARN, "0.1.0", "restart kilnd");
}

TEST(kilnctl_doctor, a_store_that_is_not_writable_is_a_failed_check)
{
    struct fixture *f = *state;
    judge_status(f, "{\"store\":{\"mode\":\"on\",\"health\":\"full\",\"trouble\":\"no space\"}}");
    expect_finding(f, VERDICT_FAIL, "no space", "cache directory");
    judge_status(f, "{\"store\":{\"mode\":\"off\",\"health\":\"ok\"}}");
    expect_finding(f, VERDICT_WARN, "is off", "'cache'");
    judge_status(f, "{\"store\":{\"mode\":\"on\",\"health\":\"ok\",\"quarantined\":2}}");
    expect_finding(f, VERDICT_WARN, "2 damaged", "clear --all");
    judge_status(f,
                 "{\"store\":{\"mode\":\"on\",\"health\":\"ok\"},\"tuning\":{\"available\":false,"
                 "\"trouble\":\"locked\"}}");
    expect_finding(f, VERDICT_FAIL, "locked", "state directory");
}

#define STORE_OK "\"store\":{\"mode\":\"on\",\"health\":\"ok\"},"

TEST_F(kilnctl_doctor, a_fleet_that_fails_or_cannot_give_leases_is_reported)
{
    judge_status(f, "{" STORE_OK "\"fleet\":{\"up\":false,\"leases\":\"on\","
                    "\"broken_s\":90,\"last_error\":\"cannot be reached\"}}");
    expect_finding(f, VERDICT_WARN, "fails since 90.0 s", "fleet_error");
    assert_says(only_finding(f, VERDICT_WARN)->what, "cannot be reached");
    judge_status(f, "{" STORE_OK "\"fleet\":{\"up\":true,\"leases\":\"off\"}}");
    expect_finding(f, VERDICT_WARN, "If-None-Match", "fleet.md");
    judge_status(f, "{" STORE_OK "\"fleet\":{\"up\":true,\"leases\":\"unknown\","
                    "\"leases_trouble\":\"the store refuses access\"}}");
    expect_finding(f, VERDICT_WARN, "the test of the store failed: the store refuses", "v1/l");
    judge_status(f, "{" STORE_OK "\"fleet\":{\"up\":true,\"leases\":\"unused\"}}");
    assert_int_equal(findings_count(&f->findings, VERDICT_OK), 2);
}

#define FLEET(rest) "{" STORE_OK "\"fleet\":{\"up\":true,\"leases\":\"on\"," rest "}}"

TEST_F(kilnctl_doctor, a_fleet_without_usable_keys_is_reported)
{
    judge_status(f, FLEET("\"keys\":{\"directory\":\"/k\",\"trusted\":0,\"bad\":0}"));
    expect_finding(f, VERDICT_WARN, "no key in '/k'", "fleet trust");
    judge_status(f, FLEET("\"keys\":{\"directory\":\"/k\",\"trusted\":1,\"bad\":0}"));
    expect_finding(f, VERDICT_WARN, "may sign indices", "--index");
    judge_status(f, FLEET("\"keys\":{\"trusted\":2,\"for_indices\":1,\"bad\":1,"
                          "\"first_bad\":\"x.pub\"}"));
    expect_finding(f, VERDICT_WARN, "'x.pub'", "remove the file");
}

TEST_F(kilnctl_doctor, an_index_that_is_not_used_or_from_the_future_is_reported)
{
    judge_status(f, FLEET("\"shards\":[{\"target\":\"gfx90a\",\"trouble\":\"untrusted\"}]"));
    expect_finding(f, VERDICT_WARN, "no index for gfx90a: untrusted", "When it fails");
    judge_status(f, FLEET("\"shards\":[{\"target\":\"gfx90a\",\"time\":99999999999,"
                          "\"epoch\":3}]"));
    expect_finding(f, VERDICT_WARN, "in the future", "date");
    assert_string_equal(only_finding(f, VERDICT_WARN)->check, "clock");
}

TEST_F(kilnctl_doctor, uploads_that_fail_are_reported)
{
    judge_status(f, FLEET("\"uploads\":{\"failing\":true,\"waiting\":3}"));
    expect_finding(f, VERDICT_WARN, "3 wait", "fleet status");
}

#define WORKERS(rest) "{" STORE_OK "\"workers\":{\"total\":2,\"user\":\"kiln\"," rest "}}"
#define LACKS_NETWORK                                                       \
    "\"layers\":{\"user\":true,\"network\":false},\"missing\":\"network\"," \
    "\"why\":\"network: Operation not permitted\",\"to_do\":\"start kilnd with CAP_SYS_ADMIN\""

TEST_F(kilnctl_doctor, compilers_that_are_not_confined_are_reported)
{
    judge_status(f, WORKERS("\"sandbox\":{\"policy\":\"warn\"," LACKS_NETWORK "}"));
    expect_finding(f, VERDICT_WARN, "network", "CAP_SYS_ADMIN");
    expect_finding(f, VERDICT_WARN, "Operation", "docs/security.md");
    judge_status(f, WORKERS("\"sandbox\":{\"policy\":\"require\"," LACKS_NETWORK "}"));
    expect_finding(f, VERDICT_FAIL, "do not", "CAP_SYS_ADMIN");
    judge_status(f, "{" STORE_OK "\"workers\":{\"total\":0}}");
    expect_finding(f, VERDICT_WARN, "switched off", "'workers'");
    judge_status(f, WORKERS("\"sandbox\":{\"policy\":\"warn\"}"));
    only_finding(f, VERDICT_UNSEEN);
    judge_status(f, WORKERS("\"sandbox\":{\"policy\":\"warn\",\"layers\":{\"user\":true}}"));
    assert_int_equal(findings_count(&f->findings, VERDICT_OK), 2);
}

static void judge_health(struct fixture *f, const char *text)
{
    KILN_AUTO(json) struct json *health = read_json(text);
    f->findings.count = 0;
    daemon_judge_health(health, 1000000, &f->findings);
}

TEST_F(kilnctl_doctor, a_damaged_database_fails)
{
    judge_health(f, "{\"cache\":{\"bytes\":4096,\"checked\":true,\"damage\":\"page 3\"}}");
    expect_finding(f, VERDICT_FAIL, "page 3", "clear --all");
    judge_health(f, "{\"cache\":{\"bytes\":4096000000,\"checked\":false}}");
    expect_finding(f, VERDICT_UNSEEN, "3.8 GiB", "");
}

TEST_F(kilnctl_doctor, an_undamaged_database_is_reported_with_the_time_of_its_check)
{
    judge_health(f, "{\"cache\":{\"bytes\":4096,\"checked\":true,\"checked_age_s\":0}}");
    assert_string_equal(f->findings.items[0].what, "sound (4.0 KiB)");
    f->findings.count = 0;
    judge_health(f, "{\"cache\":{\"bytes\":4096,\"checked\":true,\"checked_age_s\":37}}");
    assert_string_equal(f->findings.items[0].what, "sound (4.0 KiB, as of 37 s ago)");
}

TEST_F(kilnctl_doctor, a_wrong_clock_causes_a_warning)
{
    judge_health(f, "{\"now\":1000000,\"cache\":{\"newest\":1090000}}");
    expect_finding(f, VERDICT_WARN, "in the future", "timedatectl");
    judge_health(f, "{\"now\":1100000,\"cache\":{}}");
    expect_finding(f, VERDICT_WARN, "1 d", "container");
}

TEST_F(kilnctl_doctor, limits_that_are_too_low_are_reported)
{
    judge_health(f, "{\"now\":1000000,\"limits\":{\"open_files\":256,\"memfd_sealed\":true}}");
    expect_finding(f, VERDICT_WARN, "256", "LimitNOFILE");
    judge_health(f,
                 "{\"now\":1000000,\"limits\":{\"memfd_sealed\":false,\"memfd_trouble\":\"no\"}}");
    expect_finding(f, VERDICT_FAIL, "sealed", "memfd_create");
}

/* ---- compilers ---- */

static enum trial_end try_clang(struct fixture *f, int rc)
{
    return toolchain_judge(
        &(struct toolchain_trial){ .name = "clang", .target = "gfx90a", .rc = rc, .why = "why" },
        &f->findings);
}

TEST_F(kilnctl_doctor, a_host_without_a_working_compiler_is_a_failed_check)
{
    toolchains_conclude(try_clang(f, KILN_E_COMPILE_FAILED), &f->findings);
    expect_finding(f, VERDICT_WARN, "gfx90a: why", "--probe gfx90a");
    expect_finding(f, VERDICT_FAIL, "no compiler", "apt install");
    assert_says(only_finding(f, VERDICT_FAIL)->advice, "'workers'");
}

TEST_F(kilnctl_doctor, one_working_compiler_is_enough)
{
    static const int codes[] = { KILN_E_UNSUPPORTED, KILN_E_UNAVAILABLE };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        f->findings.count = 0;
        unsigned ends = try_clang(f, codes[i]);
        toolchains_conclude(ends | try_clang(f, KILN_E_OK), &f->findings);
        assert_int_equal(findings_count(&f->findings, VERDICT_WARN), 1);
        assert_int_equal(findings_count(&f->findings, VERDICT_FAIL), 0);
    }
}

/* A compiler that could not be tried may work, so doctor must not advise installing another one. */
TEST_F(kilnctl_doctor, an_untried_compiler_is_not_reported_as_unable)
{
    toolchains_conclude(try_clang(f, KILN_E_UNAVAILABLE), &f->findings);
    expect_finding(f, VERDICT_WARN, "gfx90a: why", "doctor again");
    expect_finding(f, VERDICT_FAIL, "any kernel", "journalctl -u");
    assert_null(strstr(only_finding(f, VERDICT_WARN)->what, "makes none"));
    assert_null(strstr(only_finding(f, VERDICT_FAIL)->advice, "install"));
}

TEST_F(kilnctl_doctor, a_refused_or_late_compile_does_not_fail_a_compiler)
{
    static const int codes[] = { KILN_E_BUSY, KILN_E_FULL, KILN_E_TIMED_OUT, KILN_E_DENIED };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        f->findings.count = 0;
        unsigned ends = try_clang(f, KILN_E_UNSUPPORTED);
        toolchains_conclude(ends | try_clang(f, codes[i]), &f->findings);
        expect_finding(f, VERDICT_UNSEEN, "gfx90a: why", "");
        assert_string_equal(only_finding(f, VERDICT_UNSEEN)->advice, "");
        assert_int_equal(findings_count(&f->findings, VERDICT_FAIL), 0);
        f->findings.count = 0;
        toolchains_judge_unknown(codes[i], "why", &f->findings);
        expect_finding(f, VERDICT_UNSEEN, "why", "");
    }
    f->findings.count = 0;
    toolchains_judge_unknown(KILN_E_UNAVAILABLE, "why", &f->findings);
    expect_finding(f, VERDICT_FAIL, "why", "apt install");
}

TEST_F(kilnctl_doctor, doctor_knows_that_compilers_are_switched_off)
{
    KILN_AUTO(json) struct json *off = read_json("{\"workers\":{\"total\":0}}");
    KILN_AUTO(json) struct json *on = read_json("{\"workers\":{\"total\":2}}");
    assert_true(daemon_runs_no_compiler(off));
    assert_false(daemon_runs_no_compiler(on));
    assert_false(daemon_runs_no_compiler(NULL));
    toolchains_switched_off(&f->findings);
    expect_finding(f, VERDICT_WARN, "'workers'", "");
    assert_string_equal(only_finding(f, VERDICT_WARN)->advice, "");
}

static void judge_packages(struct fixture *f, const char *list, const char *coverage)
{
    KILN_AUTO(json) struct json *l = read_json(list);
    KILN_AUTO(json) struct json *c = read_json(coverage);
    f->findings.count = 0;
    daemon_judge_packages(l, c, &f->findings);
}

#define ONE_PACKAGE "{\"packages\":[{\"name\":\"gfx906_60.kdb\"}]}"
#define GPU(coverage) \
    "{\"arch\":\"gfx90a\",\"database_id\":\"gfx90a68\",\"coverage\":\"" coverage "\"}"

TEST_F(kilnctl_doctor, packages_for_other_gpus_fail_and_name_the_right_package)
{
    judge_packages(f, ONE_PACKAGE, "{\"gpus\":[" GPU("none") "," GPU("none") "]}");
    expect_finding(f, VERDICT_FAIL, "gfx90a68", "--db-id gfx90a68");
    judge_packages(f, ONE_PACKAGE, "{\"gpus\":[" GPU("exact") "," GPU("exact") "]}");
    only_finding(f, VERDICT_OK);
    judge_packages(f, "{}", "{\"gpus\":[" GPU("none") "]}");
    expect_finding(f, VERDICT_WARN, "none is", "pkg install");
    judge_packages(f, ONE_PACKAGE, "{\"gpus\":[]}");
    only_finding(f, VERDICT_OK);
    judge_packages(f, "{\"refused\":[{\"name\":\"bad.kdb\",\"why\":\"no database\"}]}",
                   "{\"gpus\":[]}");
    expect_finding(f, VERDICT_WARN, "'bad.kdb'", "pkg install");
}

TEST_F(kilnctl_doctor, an_installed_miopen_is_looked_for_on_hosts_with_its_gpus)
{
    KILN_AUTO(json) struct json *one = read_json("{\"gpus\":[" GPU("none") "]}");
    KILN_AUTO(json) struct json *none = read_json("{\"gpus\":[]}");
    setenv("MIOPEN_SYSTEM_DB_PATH", "/nowhere/db", 1);
    daemon_judge_miopen(one, &f->findings);
    expect_finding(f, VERDICT_UNSEEN, "'/nowhere/db'", "MIOPEN_SYSTEM_DB_PATH");
    f->findings.count = 0;
    setenv("MIOPEN_SYSTEM_DB_PATH", "/tmp", 1);
    daemon_judge_miopen(one, &f->findings);
    assert_says(only_finding(f, VERDICT_OK)->what, "'/tmp'");
    f->findings.count = 0;
    daemon_judge_miopen(none, &f->findings);
    assert_int_equal(f->findings.count, 0);
}

TEST_F(kilnctl_doctor, tuning_databases_that_are_damaged_fail)
{
    KILN_AUTO(json) struct json *bad = read_json("{\"damaged\":2}");
    KILN_AUTO(json) struct json *good = read_json("{\"checked\":193590,\"damaged\":0}");
    daemon_judge_tuning(bad, &f->findings);
    expect_finding(f, VERDICT_FAIL, "2 of", "db verify");
    daemon_judge_tuning(good, &f->findings);
    expect_finding(f, VERDICT_OK, "193 590", "");
}

TEST_F(kilnctl_doctor, top_accepts_answers_without_members)
{
    judge_status(f, "{}");
    judge_health(f, "{\"directories\":[{}]}");
    judge_packages(f, "{}", "{}");
    assert_int_equal(findings_count(&f->findings, VERDICT_FAIL), 0);
}

/* ---- printing ---- */

TEST_F(kilnctl_doctor, no_finding_prints_control_characters)
{
    char text[512];
    findings_advise(findings_add(&f->findings, "a check", VERDICT_FAIL, "bad\x1b[2J\nname"),
                    "do this\nthen that");
    FILE *out = fmemopen(text, sizeof(text), "w");
    findings_print(&f->findings, out);
    fclose(out);
    assert_string_equal(text, "fail    a check           bad?[2J?name\n"
                              "                          do this\n"
                              "                          then that\n");
}

TEST_F(kilnctl_doctor, findings_beyond_the_maximum_are_omitted)
{
    for (unsigned i = 0; i < FINDINGS_MAX + 5; i++)
        findings_advise(findings_add(&f->findings, "x", VERDICT_OK, "%u", i), "y");
    assert_int_equal(f->findings.count, FINDINGS_MAX);
    KILN_AUTO(json) struct json *list = findings_to_json(&f->findings);
    assert_int_equal(json_count(list), FINDINGS_MAX);
    assert_string_equal(json_get_text(json_first(list), "verdict", ""), "ok");
}
