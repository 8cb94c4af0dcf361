/* SPDX-License-Identifier: MIT */
#include "tests/integration/cut_line.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void pass_on(struct cut_line *line, int from, int to)
{
    char chunk[16384];
    size_t passed = 0;
    ssize_t got;
    while ((got = recv(from, chunk, sizeof(chunk), 0)) > 0) {
        size_t size = (size_t)got;
        if (line->cuts > 0 && passed + size >= line->cut_after) {
            line->cuts--;
            http_send(to, chunk, line->cut_after - passed);
            return;
        }
        if (!http_send(to, chunk, size))
            return;
        passed += size;
    }
}

static void relay_answer(struct http_script *script, unsigned number, int fd)
{
    struct cut_line *line = script->context;
    (void)number;
    int server = http_connect(line->to_port);
    char *end = strstr(script->request, "\r\n\r\n");
    if (server < 0 || !end)
        return;
    http_send(server, script->request, (size_t)(end - script->request));
    http_say(server, "\r\nConnection: close\r\n\r\n");
    pass_on(line, server, fd);
    close(server);
}

void cut_line_start(struct cut_line *line, uint16_t to_port, unsigned cuts, size_t cut_after)
{
    *line = (struct cut_line){ .script = { .answer = relay_answer, .context = line },
                               .to_port = to_port,
                               .cuts = cuts,
                               .cut_after = cut_after };
    http_script_start(&line->script);
}

void cut_line_stop(struct cut_line *line) { http_script_stop(&line->script); }
