/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/doctor_units.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX 8192
#define VALUE_MAX 64

struct unit {
    char name[VALUE_MAX], load[VALUE_MAX], active[VALUE_MAX], enabled[VALUE_MAX], result[VALUE_MAX];
};

/* ---- the output of systemctl ---- */

static void take_line(const char *line, size_t size, struct unit *unit)
{
    const struct {
        const char *key;
        char *value;
    } keys[] = { { "Id=", unit->name },
                 { "LoadState=", unit->load },
                 { "ActiveState=", unit->active },
                 { "UnitFileState=", unit->enabled },
                 { "Result=", unit->result } };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        size_t key = strlen(keys[i].key);
        if (size > key && strncmp(line, keys[i].key, key) == 0)
            snprintf(keys[i].value, VALUE_MAX, "%.*s", (int)(size - key), line + key);
    }
}

/* Parses one unit; returns the start of the next one. */
static const char *take_unit(const char *text, struct unit *ret_unit)
{
    *ret_unit = (struct unit){ 0 };
    text += strspn(text, "\n");
    while (*text && *text != '\n') {
        size_t size = strcspn(text, "\n");
        take_line(text, size, ret_unit);
        text += size + (text[size] == '\n');
    }
    return text;
}

static void judge_unit(const struct unit *unit, bool is_system, struct findings *f)
{
    const char *user = is_system ? "" : " --user", *as_root = is_system ? "as root: " : "";
    bool is_socket = strstr(unit->name, ".socket") != NULL;
    struct finding *finding;
    if (strcmp(unit->active, "failed") == 0) {
        finding = findings_add(f, "systemd", VERDICT_FAIL, "%s failed (%s)", unit->name,
                               unit->result[0] ? unit->result : "no reason is given");
        findings_advise(
            finding,
            "see journalctl%s -u %s for the reason; then %ssystemctl%s reset-failed %s && "
            "systemctl%s start %s",
            user, unit->name, as_root, user, unit->name, user, unit->name);
    } else if (is_socket && strcmp(unit->active, "active") != 0) {
        finding =
            findings_add(f, "systemd", VERDICT_FAIL, "%s is %s: kilnd is not started on demand",
                         unit->name, unit->active);
        findings_advise(finding, "%ssystemctl%s enable --now %s", as_root, user, unit->name);
    } else if (is_socket && strcmp(unit->enabled, "enabled") != 0) {
        finding =
            findings_add(f, "systemd", VERDICT_WARN, "%s is %s: it will not start after a reboot",
                         unit->name, unit->enabled[0] ? unit->enabled : "not enabled");
        findings_advise(finding, "%ssystemctl%s enable %s", as_root, user, unit->name);
    } else {
        findings_add(f, "systemd", VERDICT_OK, "%s is %s%s%s", unit->name, unit->active,
                     is_socket ? ", " : "", is_socket ? unit->enabled : "");
    }
}

void units_judge(const char *text, bool is_system, struct findings *f)
{
    struct unit unit;
    size_t known = 0;
    for (unsigned i = 0; i < 2 && *text; i++) {
        text = take_unit(text, &unit);
        if (!unit.name[0] || strcmp(unit.load, "loaded") != 0)
            continue;
        known++;
        judge_unit(&unit, is_system, f);
    }
    if (!known)
        findings_add(f, "systemd", VERDICT_OK,
                     "it has no unit for kilnd: kilnd is started by hand");
}

/* ---- running systemctl ---- */

static int start_systemctl(char *const *argv, int output, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    int errnum = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (!errnum)
        errnum =
            posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!errnum)
        errnum = posix_spawnp(ret_pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return errnum;
}

static void read_output(int fd, char text[ANSWER_MAX])
{
    size_t used = 0;
    for (;;) {
        ssize_t got = read(fd, text + used, ANSWER_MAX - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || (used += (size_t)got) == ANSWER_MAX - 1)
            break;
    }
    text[used] = '\0';
}

static bool query_systemctl(bool is_system, char text[ANSWER_MAX])
{
    static char program[] = "systemctl", system[] = "--system", user[] = "--user", show[] = "show",
                what[] = "--property=Id,LoadState,ActiveState,UnitFileState,Result",
                socket[] = "kilnd.socket", service[] = "kilnd.service";
    char *const argv[] = { program, is_system ? system : user, show, what, socket, service, NULL };
    int ends[2], status = 0;
    pid_t pid = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    int errnum = start_systemctl(argv, ends[1], &pid);
    close(ends[1]);
    text[0] = '\0';
    if (!errnum)
        read_output(ends[0], text);
    close(ends[0]);
    while (!errnum && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return !errnum && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void units_check(bool is_system, struct findings *f)
{
    char text[ANSWER_MAX];
    if (access("/run/systemd/system", F_OK) != 0)
        findings_add(f, "systemd", VERDICT_OK,
                     "systemd does not run here: kilnd is started by hand");
    else if (!query_systemctl(is_system, text))
        findings_add(f, "systemd", VERDICT_UNSEEN, "'systemctl%s show' does not answer",
                     is_system ? "" : " --user");
    else
        units_judge(text, is_system, f);
}
