/* SPDX-License-Identifier: MIT */
#include "tests/support/nginx.h"

#include "tests/support/daemon_process.h"
#include "tests/support/http_script.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES_MAX 8

static const char *find_program(void)
{
    static const char *const places[] = { "/usr/sbin/nginx", "/usr/local/sbin/nginx",
                                          "/usr/bin/nginx" };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (access(places[i], X_OK) == 0)
            return places[i];
    }
    return NULL;
}

static void write_configuration(const struct nginx *n, const char *files, const char *certificate,
                                const char *key)
{
    static const char *const temporary[] = { "client_body", "proxy", "fastcgi", "uwsgi", "scgi" };
    char path[256];
    snprintf(path, sizeof(path), "%s/nginx.conf", n->directory);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "daemon off;\nmaster_process off;\npid %s/pid;\nerror_log %s/error.log;\n"
            "events { worker_connections 64; }\nhttp {\n"
            "log_format short '$status $request_uri';\naccess_log %s/access.log short;\n",
            n->directory, n->directory, n->directory);
    for (size_t i = 0; i < sizeof(temporary) / sizeof(temporary[0]); i++)
        fprintf(f, "%s_temp_path %s/%s;\n", temporary[i], n->directory, temporary[i]);
    fprintf(f, "server {\nlisten 127.0.0.1:%u;\n", n->port);
    if (certificate)
        fprintf(f, "listen 127.0.0.1:%u ssl;\nssl_certificate %s;\nssl_certificate_key %s;\n",
                n->tls_port, certificate, key);
    fprintf(f, "root %s;\n", files);
    fprintf(f, "location /plain/ { return 302 http://127.0.0.1:%u/; }\n", n->port);
    fprintf(f, "}\n}\n");
    assert_int_equal(fclose(f), 0);
}

/* Returns true if nginx listens, or if it has ended because another process has taken one of its
 * ports. nginx writes its pid file after it has opened both ports. A connection would not show that
 * it listens, because that other process may accept it. */
static bool is_settled(void *context)
{
    struct nginx *n = context;
    char path[256];
    snprintf(path, sizeof(path), "%s/pid", n->directory);
    if (waitpid(n->pid, NULL, WNOHANG) != n->pid)
        return access(path, F_OK) == 0;
    n->pid = 0;
    return true;
}

static void exec_program(const char *program, const struct nginx *n)
{
    char configuration[256], log[256];
    snprintf(configuration, sizeof(configuration), "%s/nginx.conf", n->directory);
    snprintf(log, sizeof(log), "%s/error.log", n->directory);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl(program, "nginx", "-p", n->directory, "-c", configuration, "-e", log, (char *)NULL);
    _exit(127);
}

/* Another process may take a port before nginx uses it, so nginx_start tries several times. */
static void choose_ports(struct nginx *n)
{
    int held[] = { http_hold_port(&n->port), http_hold_port(&n->tls_port) };
    close(held[0]);
    close(held[1]);
}

static bool try_to_start(struct nginx *n, const char *program)
{
    n->pid = fork();
    assert_true(n->pid >= 0);
    if (n->pid == 0)
        exec_program(program, n);
    return holds_in_time(is_settled, n) && n->pid > 0;
}

static void stop_at_end(void *nginx) { nginx_stop(nginx); }

bool nginx_start(struct nginx *n, const char *directory, const char *files, const char *certificate,
                 const char *key)
{
    const char *program = find_program();
    *n = (struct nginx){ 0 };
    test_at_end(stop_at_end, n);
    if (!program) {
        print_message("there is no nginx here (scripts/install-deps test brings it)\n");
        return false;
    }
    snprintf(n->directory, sizeof(n->directory), "%s/nginx", directory);
    assert_int_equal(mkdir(n->directory, 0700), 0);
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        choose_ports(n);
        write_configuration(n, files, certificate, key);
        if (try_to_start(n, program))
            return true;
    }
    fail_msg("nginx does not listen; see %s/error.log", n->directory);
    return false;
}

void nginx_stop(struct nginx *n)
{
    if (n->pid <= 0)
        return;
    kill(n->pid, SIGTERM);
    wait_program(n->pid);
    n->pid = 0;
}

static unsigned count_answers(const struct nginx *n, int status)
{
    char path[256], line[512], begins[16];
    unsigned count = 0;
    snprintf(path, sizeof(path), "%s/access.log", n->directory);
    snprintf(begins, sizeof(begins), "%d ", status);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        count += strncmp(line, begins, strlen(begins)) == 0;
    fclose(f);
    return count;
}

struct answers {
    const struct nginx *nginx;
    int status;
    unsigned least;
};

static bool are_logged(void *context)
{
    const struct answers *wanted = context;
    return count_answers(wanted->nginx, wanted->status) >= wanted->least;
}

unsigned nginx_answers(const struct nginx *n, int status, unsigned least)
{
    struct answers wanted = { n, status, least };
    holds_in_time(are_logged, &wanted);
    return count_answers(n, status);
}
