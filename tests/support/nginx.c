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
    snprintf(path, sizeof(path), "%s/nginx.conf", n->folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "daemon off;\nmaster_process off;\npid %s/pid;\nerror_log %s/error.log;\n"
            "events { worker_connections 64; }\nhttp {\n"
            "log_format short '$status $request_uri';\naccess_log %s/access.log short;\n",
            n->folder, n->folder, n->folder);
    for (size_t i = 0; i < sizeof(temporary) / sizeof(temporary[0]); i++)
        fprintf(f, "%s_temp_path %s/%s;\n", temporary[i], n->folder, temporary[i]);
    fprintf(f, "server {\nlisten 127.0.0.1:%u;\n", n->port);
    if (certificate)
        fprintf(f, "listen 127.0.0.1:%u ssl;\nssl_certificate %s;\nssl_certificate_key %s;\n",
                n->tls_port, certificate, key);
    fprintf(f, "root %s;\n", files);
    fprintf(f, "location /plain/ { return 302 http://127.0.0.1:%u/; }\n", n->port);
    fprintf(f, "}\n}\n");
    assert_int_equal(fclose(f), 0);
}

static bool is_ready(void *context)
{
    struct nginx *n = context;
    int status = 0;
    if (waitpid(n->pid, &status, WNOHANG) == n->pid) {
        n->pid = 0;
        fail_msg("nginx ended at once, wait status %d; see %s/error.log", status, n->folder);
    }
    int fd = http_connect(n->port);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void exec_program(const char *program, const struct nginx *n)
{
    char configuration[256], log[256];
    snprintf(configuration, sizeof(configuration), "%s/nginx.conf", n->folder);
    snprintf(log, sizeof(log), "%s/error.log", n->folder);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl(program, "nginx", "-p", n->folder, "-c", configuration, "-e", log, (char *)NULL);
    _exit(127);
}

bool nginx_start(struct nginx *n, const char *folder, const char *files, const char *certificate,
                 const char *key)
{
    const char *program = find_program();
    *n = (struct nginx){ .port = http_free_port(), .tls_port = http_free_port() };
    if (!program) {
        print_message("SKIPPED: there is no nginx here (scripts/install-deps test brings it)\n");
        return false;
    }
    snprintf(n->folder, sizeof(n->folder), "%s/nginx", folder);
    assert_int_equal(mkdir(n->folder, 0700), 0);
    write_configuration(n, files, certificate, key);
    n->pid = fork();
    assert_true(n->pid >= 0);
    if (n->pid == 0)
        exec_program(program, n);
    if (!wait_until(is_ready, n))
        fail_msg("nginx does not listen; see %s/error.log", n->folder);
    return true;
}

void nginx_stop(struct nginx *n)
{
    if (n->pid <= 0)
        return;
    kill(n->pid, SIGTERM);
    wait_program(n->pid);
    n->pid = 0;
}

unsigned nginx_answers(const struct nginx *n, int status)
{
    char path[256], line[512], begins[16];
    unsigned count = 0;
    snprintf(path, sizeof(path), "%s/access.log", n->folder);
    snprintf(begins, sizeof(begins), "%d ", status);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        count += strncmp(line, begins, strlen(begins)) == 0;
    fclose(f);
    return count;
}
