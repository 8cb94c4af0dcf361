/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/doctor_units.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX 8192
#define VALUE_MAX 128
#define UNITS_MAX 4
/* Systemd's exit status if there is no user with the name in User= */
#define STATUS_NO_USER "217"

struct unit {
    char name[VALUE_MAX], load[VALUE_MAX], active[VALUE_MAX], sub[VALUE_MAX], enabled[VALUE_MAX];
    char result[VALUE_MAX], status[VALUE_MAX], listen[VALUE_MAX];
    /* number of automatic restarts since the unit was last started by a person or its socket */
    char restarts[VALUE_MAX];
};

struct purpose {
    const char *unit;
    const char *without;
};
static const struct purpose purposes[] = {
    { "kilnd.socket", "kilnd is not started on demand" },
    { "kiln-compiler.socket", "kilnd cannot start compilers" },
    { "kiln-transfer.socket", "kilnd cannot fetch packages" },
};

static void take_line(const char *line, size_t size, struct unit *unit)
{
    const struct {
        const char *key;
        char *value;
    } keys[] = { { "Id=", unit->name },
                 { "LoadState=", unit->load },
                 { "ActiveState=", unit->active },
                 { "SubState=", unit->sub },
                 { "UnitFileState=", unit->enabled },
                 { "Result=", unit->result },
                 { "ExecMainStatus=", unit->status },
                 { "Listen=", unit->listen },
                 { "NRestarts=", unit->restarts } };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        size_t key = strlen(keys[i].key);
        if (size > key && strncmp(line, keys[i].key, key) == 0)
            snprintf(keys[i].value, VALUE_MAX, "%.*s", (int)(size - key), line + key);
    }
}

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

struct manager {
    bool is_system;
    const char *user, *as_root;
};

static struct manager manager_of(bool is_system)
{
    return (struct manager){ .is_system = is_system,
                             .user = is_system ? "" : " --user",
                             .as_root = is_system ? "as root: " : "" };
}

static const char *without(const struct unit *unit)
{
    for (size_t i = 0; i < sizeof(purposes) / sizeof(purposes[0]); i++) {
        if (strcmp(unit->name, purposes[i].unit) == 0)
            return purposes[i].without;
    }
    return "kilnd does not run";
}

static void judge_masked(const struct unit *unit, const struct manager *m, struct findings *f)
{
    struct finding *finding =
        findings_add(f, "systemd", VERDICT_FAIL, "%s is masked: %s", unit->name, without(unit));
    findings_advise(finding, "%ssystemctl%s unmask %s && systemctl%s %s %s", m->as_root, m->user,
                    unit->name, m->user, strstr(unit->name, ".socket") ? "enable --now" : "start",
                    unit->name);
}

static bool is_tried_again(const struct unit *unit)
{
    bool restarted = unit->restarts[0] && strcmp(unit->restarts, "0") != 0;
    return strcmp(unit->sub, "auto-restart") == 0 ||
           (restarted && strcmp(unit->active, "activating") == 0);
}

/* Adds a failure. Its reason may be unknown, because systemd forgets the result of the last start
 * when the next start begins. */
static void judge_failed(const struct unit *unit, const struct manager *m, struct findings *f)
{
    bool waits = is_tried_again(unit);
    bool is_known = unit->result[0] && strcmp(unit->result, "success") != 0;
    struct finding *finding =
        findings_add(f, "systemd", VERDICT_FAIL, "%s %s (%s)", unit->name,
                     waits ? "cannot start, and systemd tries again" : "failed",
                     is_known ? unit->result : "no reason is given");
    if (strcmp(unit->status, STATUS_NO_USER) == 0)
        findings_advise(finding,
                        "its user or group does not exist; as root: systemd-sysusers, then "
                        "systemctl restart %s",
                        unit->name);
    else if (waits)
        findings_advise(finding, "see journalctl%s -u %s for the reason", m->user, unit->name);
    else
        findings_advise(finding,
                        "see journalctl%s -u %s for the reason; then %ssystemctl%s reset-failed %s "
                        "&& systemctl%s start %s",
                        m->user, unit->name, m->as_root, m->user, unit->name, m->user, unit->name);
}

static bool is_file_lost(const struct unit *unit)
{
    char path[VALUE_MAX];
    snprintf(path, sizeof(path), "%.*s", (int)strcspn(unit->listen, " "), unit->listen);
    return path[0] == '/' && access(path, F_OK) != 0 && errno == ENOENT;
}

static void judge_socket(const struct unit *unit, const struct manager *m, struct findings *f)
{
    struct finding *finding;
    if (strcmp(unit->active, "active") != 0) {
        finding = findings_add(f, "systemd", VERDICT_FAIL, "%s is %s: %s", unit->name, unit->active,
                               without(unit));
        findings_advise(finding, "%ssystemctl%s enable --now %s", m->as_root, m->user, unit->name);
    } else if (is_file_lost(unit)) {
        finding = findings_add(f, "systemd", VERDICT_FAIL,
                               "%s is active, but its file was deleted: %.100s", unit->name,
                               unit->listen);
        findings_advise(finding, "%ssystemctl%s restart %s", m->as_root, m->user, unit->name);
    } else if (strcmp(unit->enabled, "enabled") != 0) {
        finding =
            findings_add(f, "systemd", VERDICT_WARN, "%s is %s: it will not start after a reboot",
                         unit->name, unit->enabled[0] ? unit->enabled : "not enabled");
        findings_advise(finding, "%ssystemctl%s enable %s", m->as_root, m->user, unit->name);
    } else {
        findings_add(f, "systemd", VERDICT_OK, "%s is %s, %s", unit->name, unit->active,
                     unit->enabled);
    }
}

static void judge_unit(const struct unit *unit, const struct manager *m, struct findings *f)
{
    if (strcmp(unit->load, "masked") == 0)
        judge_masked(unit, m, f);
    else if (strcmp(unit->active, "failed") == 0 || is_tried_again(unit))
        judge_failed(unit, m, f);
    else if (strstr(unit->name, ".socket"))
        judge_socket(unit, m, f);
    else
        findings_add(f, "systemd", VERDICT_OK, "%s is %s", unit->name, unit->active);
}

void units_judge(const char *text, bool is_system, struct findings *f)
{
    struct unit unit;
    size_t known = 0;
    const struct manager manager = manager_of(is_system);
    for (unsigned i = 0; i < UNITS_MAX && *text; i++) {
        text = take_unit(text, &unit);
        bool is_known = strcmp(unit.load, "loaded") == 0 || strcmp(unit.load, "masked") == 0;
        if (!unit.name[0] || !is_known)
            continue;
        known++;
        judge_unit(&unit, &manager, f);
    }
    if (!known)
        findings_add(f, "systemd", VERDICT_OK,
                     "it has no unit for kilnd: kilnd is started by hand");
}

void units_judge_journal(const char *line, struct findings *f)
{
    size_t size = strcspn(line, "\n");
    if (size)
        findings_add(f, "kilnd's log", VERDICT_FAIL, "the last failed start: %.*s",
                     (int)(size > 400 ? 400 : size), line);
}

static int start_program(char *const *argv, int output, pid_t *ret_pid)
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

static bool query_program(char *const *argv, char text[ANSWER_MAX])
{
    int ends[2], status = 0;
    pid_t pid = 0;
    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    int errnum = start_program(argv, ends[1], &pid);
    close(ends[1]);
    if (!errnum)
        read_output(ends[0], text);
    close(ends[0]);
    while (!errnum && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return !errnum && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool query_systemctl(bool is_system, char text[ANSWER_MAX])
{
    static char program[] = "systemctl", system[] = "--system", user[] = "--user", show[] = "show",
                what[] = "--property=Id,LoadState,ActiveState,SubState,UnitFileState,Result,"
                         "ExecMainStatus,Listen,NRestarts",
                socket[] = "kilnd.socket", service[] = "kilnd.service",
                compiler[] = "kiln-compiler.socket", transfer[] = "kiln-transfer.socket";
    char *const argv[] = { program, is_system ? system : user,   show,     what, socket,
                           service, is_system ? compiler : NULL, transfer, NULL };
    return query_program(argv, text);
}

/* Reads from the journal why kilnd's latest failed start since boot failed, and adds the reason.
 * Adds nothing if the caller may not read the journal. */
static void quote_journal(bool is_system, struct findings *f)
{
    char text[ANSWER_MAX];
    static char program[] = "journalctl", user[] = "--user", boot[] = "--boot", quiet[] = "--quiet",
                pager[] = "--no-pager", format[] = "--output=cat", last[] = "--lines=1",
                unit[] = "--unit=kilnd.service", all[] = "--all";
    static char failed[] = "MESSAGE_ID=" UNITS_START_FAILED_ID;
    static char refused[] = "MESSAGE_ID=" UNITS_CONFIGURATION_REFUSED_ID;
    char *const argv[] = {
        program, is_system ? all : user, boot, quiet, pager, format, last, unit, failed, refused,
        NULL
    };
    if (query_program(argv, text))
        units_judge_journal(text, f);
}

void units_check(bool is_system, bool answers, struct findings *f)
{
    char text[ANSWER_MAX];
    if (access("/run/systemd/system", F_OK) != 0) {
        findings_add(f, "systemd", VERDICT_OK,
                     "systemd does not run here: kilnd is started by hand");
        return;
    }
    if (!query_systemctl(is_system, text))
        findings_add(f, "systemd", VERDICT_UNSEEN, "'systemctl%s show' does not answer",
                     is_system ? "" : " --user");
    else
        units_judge(text, is_system, f);
    if (!answers)
        quote_journal(is_system, f);
}
