/* SPDX-License-Identifier: MIT */
#include "engine/transfer/transfer_wire.h"

#include "common/base/digest.h"
#include "engine/transfer/packet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void set_text(struct json *to, const char *name, const char *text)
{
    if (text)
        json_set_text(to, name, text);
}

enum kiln_code transfer_send_job(int socket, const struct transfer_job *job, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *text = json_object();
    int fds[2];
    size_t count = 0;
    set_text(text, "url", job->url);
    set_text(text, "name", job->name);
    set_text(text, "sha256", job->sha256);
    set_text(text, "staging", job->staging);
    set_text(text, "trusted_keys", job->trusted_keys);
    json_set_u64(text, "size_limit", job->size_limit);
    json_set_bool(text, "require_signature", job->require_signature);
    json_set_bool(text, "of_user", job->of_user);
    json_set_bool(text, "unchecked", job->unchecked);
    json_set_u64(text, "disk_part", job->disk_part);
    json_set_bool(text, "content", job->content_fd >= 0);
    json_set_bool(text, "manifest", job->manifest_fd >= 0);
    if (job->content_fd >= 0)
        fds[count++] = job->content_fd;
    if (job->manifest_fd >= 0)
        fds[count++] = job->manifest_fd;
    const struct packet packet = { .json = text, .fds = fds, .fd_count = count };
    return packet_send(socket, &packet, err);
}

static bool has_descriptors(const struct received_job *j)
{
    bool content = json_get_bool(j->text, "content", false);
    bool manifest = json_get_bool(j->text, "manifest", false);
    return (content + manifest < 1 || j->fds[0] >= 0) && (content + manifest < 2 || j->fds[1] >= 0);
}

static struct transfer_job job_of(const struct received_job *j)
{
    const struct json *text = j->text;
    bool content = json_get_bool(text, "content", false);
    return (struct transfer_job){
        .url = json_get_text(text, "url", NULL),
        .content_fd = content ? j->fds[0] : -1,
        .manifest_fd = json_get_bool(text, "manifest", false) ? j->fds[content] : -1,
        .name = json_get_text(text, "name", NULL),
        .sha256 = json_get_text(text, "sha256", NULL),
        .staging = json_get_text(text, "staging", NULL),
        .trusted_keys = json_get_text(text, "trusted_keys", NULL),
        .size_limit = json_get_u64(text, "size_limit", 0),
        .require_signature = json_get_bool(text, "require_signature", true),
        .of_user = json_get_bool(text, "of_user", false),
        .unchecked = json_get_bool(text, "unchecked", false),
        .disk_part = (unsigned)json_get_u64(text, "disk_part", 0),
    };
}

enum kiln_code transfer_receive_job(int socket, struct received_job *ret_job, struct kiln_err *err)
{
    struct received_job j = { .fds = { -1, -1 } };
    enum kiln_code rc = packet_receive(socket, 0, &j.text, j.fds, err);
    if (!rc && has_descriptors(&j))
        j.job = job_of(&j);
    if (!rc && j.job.staging && j.job.trusted_keys) {
        *ret_job = j;
        return KILN_OK;
    }
    received_job_done(&j);
    return kiln_fail(err, KILN_INVALID, "the packet is not a transfer job");
}

void received_job_done(struct received_job *j)
{
    json_destroy(j->text);
    fd_auto(&j->fds[0]);
    fd_auto(&j->fds[1]);
    *j = (struct received_job){ .fds = { -1, -1 } };
}

void transfer_send_progress(int socket, const struct transfer_progress *progress)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    KILN_AUTO(json) struct json *text = json_object();
    json_set_text(text, "stage", progress->stage);
    json_set_u64(text, "done", progress->done);
    json_set_u64(text, "total", progress->total);
    json_set_u64(text, "attempt", progress->attempt);
    json_set_text(text, "note", progress->note);
    const struct packet packet = { .json = text, .flags = MSG_DONTWAIT };
    if (packet_send(socket, &packet, &ignored))
        return;
}

void transfer_send_result(int socket, const struct transfer_result *result, const char *notice)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    KILN_AUTO(json) struct json *text = json_object();
    json_set_u64(text, "code", result->err.code);
    json_set_text(text, "text", result->err.text);
    json_set_text(text, "name", result->name);
    json_set_text(text, "sha256", result->sha256);
    json_set_text(text, "signer", result->signer);
    json_set_text(text, "source", result->source);
    json_set_text(text, "fetched", result->fetched);
    json_set_u64(text, "size", result->size);
    json_set_u64(text, "rows", result->rows);
    json_set_text(text, "notice", notice);
    const struct packet packet = { .json = text };
    if (packet_send(socket, &packet, &ignored))
        return;
}

void transfer_send_snapshot(int socket, const struct snapshot *snapshot, const struct kiln_err *why)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    KILN_AUTO(json) struct json *text = json_object();
    json_set_u64(text, "code", snapshot ? KILN_OK : why->code);
    json_set_text(text, "text", snapshot ? "" : why->text);
    if (snapshot) {
        json_set_text(text, "name", snapshot->name);
        json_set_bool(text, "merged", snapshot->merged);
        json_set_text(text, "note", snapshot->note);
    }
    struct packet packet = { .json = text };
    if (snapshot) {
        packet.fds = &snapshot->fd;
        packet.fd_count = 1;
    }
    if (packet_send(socket, &packet, &ignored))
        return;
}

bool transfer_is_file_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length >= sizeof(((struct transfer_result *)0)->name) || name[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '/' || (unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return false;
    }
    return true;
}

/* Copies a text, and replaces its control characters by '?', because texts from packages and
 * servers are printed on terminals. Returns false if it does not fit, or is missing. */
static bool copy_text(const struct json *from, const char *name, char *to, size_t size)
{
    const char *text = json_get_text(from, name, NULL);
    if (!text || strlen(text) >= size)
        return false;
    do
        *to++ = (*text >= ' ' && *text != 0x7f) || *text == '\0' ? *text : '?';
    while (*text++);
    return true;
}

static bool read_result(const struct json *text, struct transfer_result *o)
{
    struct digest sha256;
    o->err.code = (enum kiln_code)json_get_u64(text, "code", KILN_INVALID);
    o->size = json_get_u64(text, "size", 0);
    o->rows = json_get_u64(text, "rows", 0);
    if (!copy_text(text, "text", o->err.text, sizeof(o->err.text)) ||
        !copy_text(text, "name", o->name, sizeof(o->name)) ||
        !copy_text(text, "sha256", o->sha256, sizeof(o->sha256)) ||
        !copy_text(text, "signer", o->signer, sizeof(o->signer)) ||
        !copy_text(text, "source", o->source, sizeof(o->source)) ||
        !copy_text(text, "fetched", o->fetched, sizeof(o->fetched)))
        return false;
    if (o->err.code != KILN_OK)
        return strcmp(kiln_code_name(o->err.code), "?") != 0 && o->err.text[0];
    return transfer_is_file_name(o->name) && digest_from_hex(o->sha256, &sha256);
}

static bool read_progress(const struct json *text, struct transfer_report *r)
{
    struct transfer_progress *p = &r->progress;
    *p = (struct transfer_progress){
        .done = json_get_u64(text, "done", 0),
        .total = json_get_u64(text, "total", 0),
        .attempt = (unsigned)json_get_u64(text, "attempt", 1),
    };
    if (!copy_text(text, "stage", r->stage, sizeof(r->stage)) ||
        !copy_text(text, "note", r->note, sizeof(r->note)))
        return false;
    p->stage = r->stage;
    p->note = r->note;
    return true;
}

enum kiln_code transfer_receive_report(int socket, struct transfer_report *ret_report,
                                       struct kiln_err *err)
{
    KILN_AUTO(json) struct json *text = NULL;
    struct transfer_report *r = ret_report;
    enum kiln_code rc = packet_receive(socket, MSG_DONTWAIT, &text, NULL, err);
    if (rc)
        return rc;
    *r = (struct transfer_report){ .ended = json_get(text, "code") };
    if (r->ended && read_result(text, &r->result) &&
        copy_text(text, "notice", r->notice, sizeof(r->notice)))
        return KILN_OK;
    if (!r->ended && read_progress(text, r))
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID, "a transfer process sent neither progress nor a result");
}
