/* SPDX-License-Identifier: MIT */
#include "common/log/log.h"

#include "common/base/fs.h"
#include "common/base/json.h"
#include "common/log/log_journal.h"
#include "common/log/log_limit.h"
#include "common/log/log_record.h"
#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"
#include "tests/support/unix_socket.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ID "0123456789abcdef0123456789abcdef"

static const uint32_t uid = 1000;
static const struct digest key = { { 0xab, 0xcd } };
static const struct log_fields fields = {
    .key = &key, .uid = &uid, .target = "gfx90a", .duration_us = 1500
};

static struct log_record record_of(const char *message)
{
    return (struct log_record){ .level = "warning",
                                .priority = 4,
                                .event = "store_error",
                                .id = ID,
                                .message = message,
                                .wall_us = 1767323045000006u,
                                .fields = &fields };
}

static char *write_record(void (*form)(struct buffer *, const struct log_record *),
                          const struct log_record *record)
{
    BUFFER_AUTO struct buffer out;
    buffer_init(&out, 1u << 20);
    form(&out, record);
    assert_false(out.failed);
    return bytes_to_text(buffer_view(&out));
}

static void plain_text(struct buffer *out, const struct log_record *record)
{
    log_record_text(out, record, false);
}

static void stream_text(struct buffer *out, const struct log_record *record)
{
    log_record_text(out, record, true);
}

static void expect_text(void (*form)(struct buffer *, const struct log_record *),
                        const char *message, const char *expected)
{
    const struct log_record record = record_of(message);
    KILN_AUTO(mem) char *text = write_record(form, &record);
    assert_string_equal(text, expected);
}

TEST(plain, a_log_line_of_text_shows_its_level)
{
    expect_text(plain_text, "the disk is full", "warning: the disk is full\n");
}

TEST(plain, a_log_line_for_the_journals_stream_has_its_priority)
{
    expect_text(stream_text, "the disk is full", "<4>the disk is full\n");
}

TEST(plain, text_quoted_in_a_log_message_cannot_begin_a_new_line)
{
    expect_text(plain_text, "file 'a\nerror: b\x1b[0m\x7f'",
                "warning: file 'a\\nerror: b\\x1b[0m\\x7f'\n");
    expect_text(plain_text,
                "file '\xc2\x9b"
                "2J\x9b\xc3\xa9'",
                "warning: file '\\xc2\\x9b2J\\x9b\xc3\xa9'\n");
}

static struct json *parse_record(const char *message)
{
    const struct log_record record = record_of(message);
    KILN_AUTO(mem) char *text = write_record(log_record_json, &record);
    struct kiln_err err = KILN_ERR_INIT;
    struct json *json = NULL;
    assert_ptr_equal(strchr(text, '\n'),
                     text + strlen(text) - 1); /* always one line, whatever the message contains */
    must(json_parse(bytes_of_text(text), "log line", &json, &err), err);
    return json;
}

TEST(plain, a_log_record_in_json_has_every_field)
{
    KILN_AUTO(json) struct json *json = parse_record("the disk is full");
    assert_string_equal(json_get_text(json, "time", ""), "2026-01-02T03:04:05.000006Z");
    assert_string_equal(json_get_text(json, "level", ""), "warning");
    assert_string_equal(json_get_text(json, "event", ""), "store_error");
    assert_string_equal(json_get_text(json, "message_id", ""), ID);
    assert_string_equal(json_get_text(json, "message", ""), "the disk is full");
    assert_memory_equal(json_get_text(json, "key", ""), "abcd00", 6);
    assert_int_equal(json_get_u64(json, "uid", 0), 1000);
    assert_string_equal(json_get_text(json, "target", ""), "gfx90a");
    assert_int_equal(json_get_u64(json, "duration_us", 0), 1500);
}

TEST(plain, a_log_record_in_json_without_fields_is_valid)
{
    struct log_record record = record_of("plain");
    record.fields = NULL;
    record.event = NULL;
    KILN_AUTO(mem) char *text = write_record(log_record_json, &record);
    assert_null(strstr(text, "\"key\""));
    assert_null(strstr(text, "\"event\""));
    assert_null(strstr(text, "\"uid\""));
}

TEST(plain, a_log_record_of_any_bytes_is_valid_json)
{
    static const struct {
        const char *message, *read;
    } cases[] = {
        { "quotes \" and \\ back\n\t", "quotes \" and \\ back\n\t" },
        { "caf\xc3\xa9 \xf0\x9f\x94\xa5", "caf\xc3\xa9 \xf0\x9f\x94\xa5" },
        { "bad \xff\xc3", "bad \xef\xbf\xbd\xef\xbf\xbd" },
        { "overlong \xc0\xaf \xe0\x80\xaf", "overlong \xef\xbf\xbd\xef\xbf\xbd "
                                            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
        { "surrogate \xed\xa0\x80", "surrogate \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
        { "beyond \xf4\x90\x80\x80", "beyond \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
        { "C1 \xc2\x9b"
          "2J",
          "C1 \xc2\x9b"
          "2J" },
        { "cut \xf0\x9f", "cut \xef\xbf\xbd\xef\xbf\xbd" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        KILN_AUTO(json) struct json *json = parse_record(cases[i].message);
        assert_string_equal(json_get_text(json, "message", ""), cases[i].read);
    }
}

TEST(plain, a_journal_record_has_the_native_fields)
{
    const struct log_record record = record_of("the disk is full");
    KILN_AUTO(mem) char *text = write_record(log_record_journal, &record);
    static const char *const lines[] = {
        "MESSAGE=the disk is full\n",
        "PRIORITY=4\n",
        "SYSLOG_IDENTIFIER=kilnd\n",
        "MESSAGE_ID=" ID "\n",
        "KILN_UID=1000\n",
        "KILN_EVENT=store_error\n",
        "KILN_KEY=abcd00",
        "KILN_TARGET=gfx90a",
        "KILN_DURATION_USEC=1500\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_says(text, lines[i]);
}

TEST(plain, a_log_message_of_several_lines_cannot_forge_a_journal_field)
{
    const char message[] = "a\nPRIORITY=0";
    const struct log_record record = record_of(message);
    BUFFER_AUTO struct buffer out;
    buffer_init(&out, 1u << 20);
    log_record_journal(&out, &record);
    struct reader r = reader_of(buffer_view(&out));
    assert_memory_equal(reader_take(&r, 8).data, "MESSAGE\n", 8);
    assert_int_equal(reader_u64(&r), sizeof(message) - 1); /* the raw bytes follow */
    assert_memory_equal(reader_take(&r, sizeof(message) - 1).data, message, sizeof(message) - 1);
    assert_memory_equal(reader_take(&r, 12).data, "\nPRIORITY=4\n", 12);
}

struct fixture {
    const char *path;
    int server, client;
};

SET_UP(open_journal)
{
    struct kiln_err err = KILN_ERR_INIT;
    f->path = test_path(test_directory(), "socket");
    f->server = unix_bind(SOCK_DGRAM | SOCK_NONBLOCK, f->path);
    must(journal_open(f->path, &f->client, &err), err);
}

TEAR_DOWN(close_journal)
{
    close(f->server);
    close(f->client);
}

FIXTURE(journal, open_journal, close_journal);

TEST_F(journal, a_journal_record_is_one_datagram)
{
    char got[64] = "";
    assert_true(journal_send(f->client, bytes_of_text("MESSAGE=a\n")));
    assert_int_equal(recv(f->server, got, sizeof(got), 0), 10);
    assert_string_equal(got, "MESSAGE=a\n");
}

TEST_F(journal, a_journal_record_too_large_for_a_datagram_is_sent_as_a_sealed_file)
{
    struct kiln_err err = KILN_ERR_INIT;
    size_t size = 4u << 20;
    KILN_AUTO(mem) char *large = malloc(size);
    memset(large, 'x', size);
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };

    assert_true(journal_send(f->client, bytes_of(large, size)));

    assert_int_equal(recvmsg(f->server, &m, MSG_CMSG_CLOEXEC), 0);
    assert_non_null(CMSG_FIRSTHDR(&m));
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
    assert_true(fs_is_sealed(fd));
    BUFFER_AUTO struct buffer read_back;
    buffer_init(&read_back, size);
    must(fs_read_fd(fd, size, &read_back, &err), err);
    assert_int_equal(read_back.size, size);
    assert_memory_equal(read_back.data, large, size);
    close(fd);
}

TEST_F(journal, a_journald_that_reads_nothing_does_not_block_the_log)
{
    unsigned sent = 0;
    while (sent < 100000 && journal_send(f->client, bytes_of_text("MESSAGE=a\n")))
        sent++;
    assert_in_range(sent, 1, 99999);
}

TEST(plain, an_absent_journald_is_reported_with_its_path)
{
    int fd = -1;
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_not_equal(journal_open("/nonexistent/journal", &fd, &err), KILN_OK);
    assert_says(err.text, "/nonexistent/journal");
    assert_int_equal(fd, -1);
}

TEST(plain, a_journald_without_a_usable_socket_is_reported)
{
    int fd = -1;
    char longer[200];
    struct kiln_err err = KILN_ERR_INIT;
    memset(longer, '/', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(journal_open(longer, &fd, &err), KILN_INVALID);
    assert_says(err.text, "'////");
    fail_call("socket", 1, EMFILE);
    assert_int_equal(journal_open("/nonexistent", &fd, &err), KILN_IO);
    assert_true(calls_failed());
    assert_says(err.text, "journald");
    assert_int_equal(fd, -1);
}

/* If journal_send fails, its caller writes the record to standard error as a line of text
 * instead. */
TEST_F(journal, a_large_journal_record_is_not_sent_if_its_file_cannot_be_made)
{
    size_t size = 4u << 20;
    KILN_AUTO(mem) char *large = calloc(1, size);
    static const char *const calls[] = { "memfd_create", "write", "fcntl", "sendmsg", "send" };
    assert_non_null(large);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fail_call(calls[i], 1, ENOSPC);
        assert_false(journal_send(f->client, bytes_of(large, size)));
        assert_true(calls_failed());
    }
    char got[64];
    assert_int_equal(recv(f->server, got, sizeof(got), 0), -1);
    /* If the datagram cannot be sent, even a small record is sent as a memfd. */
    fail_call("send", 1, ENOBUFS);
    assert_true(journal_send(f->client, bytes_of_text("MESSAGE=a\n")));
    assert_true(calls_failed());
    assert_int_equal(recv(f->server, got, sizeof(got), 0), 0);
}

TEST(plain, the_journals_stream_is_recognised_by_device_and_inode)
{
    struct stat seen;
    char text[64];
    KILN_AUTO(fd) int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &seen), 0);
    unsigned long long device = seen.st_dev, inode = seen.st_ino;
    snprintf(text, sizeof(text), "%llu:%llu", device, inode);
    assert_true(journal_is_stream(text, fd));
    /* JOURNAL_STREAM may be inherited, and then describe another file than standard input. */
    assert_false(journal_is_stream(text, STDIN_FILENO));
    snprintf(text, sizeof(text), "%llu:%llu", device, inode + 1);
    assert_false(journal_is_stream(text, fd));
    snprintf(text, sizeof(text), "%llu:%llux", device, inode);
    assert_false(journal_is_stream(text, fd));
    assert_false(journal_is_stream("", fd));
    assert_false(journal_is_stream(NULL, fd));
}

TEST(plain, a_burst_of_log_events_is_written_and_the_rest_counted)
{
    struct log_limit limit = { 0 };
    uint64_t now = 1000 * LOG_LIMIT_EVERY_NS;
    for (unsigned i = 0; i < LOG_LIMIT_BURST; i++)
        assert_true(log_limit_take(&limit, now));
    for (unsigned i = 0; i < 7; i++)
        assert_false(log_limit_take(&limit, now));
    assert_int_equal(log_limit_report(&limit, now), 0);
    assert_int_equal(log_limit_report(&limit, now + LOG_LIMIT_EVERY_NS), 7);
    assert_int_equal(log_limit_report(&limit, now + LOG_LIMIT_EVERY_NS), 0);
}

TEST(plain, a_limited_log_event_is_allowed_again_every_few_seconds)
{
    struct log_limit limit = { 0 };
    uint64_t now = 1000 * LOG_LIMIT_EVERY_NS;
    for (unsigned i = 0; i < LOG_LIMIT_BURST; i++)
        assert_true(log_limit_take(&limit, now));
    assert_false(log_limit_take(&limit, now + LOG_LIMIT_EVERY_NS - 1));
    assert_true(log_limit_take(&limit, now + LOG_LIMIT_EVERY_NS));
    assert_false(log_limit_take(&limit, now + LOG_LIMIT_EVERY_NS));
    assert_true(log_limit_take(&limit, now + 2 * LOG_LIMIT_EVERY_NS));
}

TEST(plain, a_long_silence_allows_at_most_one_burst_of_log_events)
{
    struct log_limit limit = { 0 };
    uint64_t now = 1000 * LOG_LIMIT_EVERY_NS;
    while (log_limit_take(&limit, now)) {
    }
    now += 1000000 * LOG_LIMIT_EVERY_NS;
    unsigned written_now = 0;
    while (log_limit_take(&limit, now))
        written_now++;
    assert_int_equal(written_now, LOG_LIMIT_BURST);
}

static char *capture_stderr(void (*act)(void))
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer text;
    KILN_AUTO(fd) int file = -1;
    buffer_init(&text, 1u << 20);
    must(fs_memfd("caught", &file, &err), err);
    int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    dup2(file, STDERR_FILENO);
    act();
    dup2(kept, STDERR_FILENO);
    close(kept);
    must(fs_read_fd(file, 1u << 20, &text, &err), err);
    return bytes_to_text(buffer_view(&text));
}

static void say_much(void)
{
    for (unsigned i = 0; i < LOG_LIMIT_BURST + 5; i++)
        log_event(LOG_EVENT_store_error, NULL, "full %u", i);
    for (unsigned i = 0; i < LOG_LIMIT_BURST + 5; i++)
        log_event(LOG_EVENT_worker_output, NULL, "said %u", i);
    log_event(LOG_EVENT_package_refused, NULL, "another kind");
    for (unsigned i = 0; i < LOG_LIMIT_BURST + 5; i++)
        log_event(LOG_EVENT_reload_refused, NULL, "refused %u", i);
}

TEST(plain, each_kind_of_log_event_has_its_own_limit_and_operators_events_have_none)
{
    KILN_AUTO(mem) char *text = capture_stderr(say_much);
    assert_says(text, "full 19");
    assert_null(strstr(text, "full 20"));
    assert_says(text, "said 19");
    /* The number of lines is limited, because a client's source can make a compiler print any
     * number. */
    assert_null(strstr(text, "said 20"));
    assert_says(text, "another kind");
    assert_says(text, "refused 24");
}

static void say_debug(void)
{
    log_event(LOG_EVENT_compiled, NULL, "hidden");
    log_set_level(LOG_LEVEL_DEBUG);
    log_event(LOG_EVENT_compiled, NULL, "shown");
    log_debug("also %s", "shown");
    log_set_level(LOG_LEVEL_INFO);
    log_debug("hidden");
}

TEST(plain, only_log_events_of_the_chosen_level_are_written)
{
    KILN_AUTO(mem) char *text = capture_stderr(say_debug);
    assert_string_equal(text, "debug: shown\ndebug: also shown\n");
}

static void say_json(void)
{
    struct kiln_err err = KILN_ERR_INIT;
    must(log_set_format(LOG_FORMAT_JSON, &err), err);
    log_event(LOG_EVENT_started, NULL, "here");
    must(log_set_format(LOG_FORMAT_TEXT, &err), err);
    log_event(LOG_EVENT_started, NULL, "there");
}

TEST(plain, the_log_format_can_be_changed_at_any_time)
{
    KILN_AUTO(mem) char *text = capture_stderr(say_json);
    assert_says(text, "\"event\":\"started\"");
    assert_says(text, "\"message\":\"here\"}\ninfo: there\n");
}

static struct {
    bool is_stream; /* whether standard error counts as journald's stream */
    /* error of journal_open; KILN_OK means that it succeeds */
    enum kiln_code fails;
    int socket; /* the socket that the next journal_open returns; -1 after that call */
} journald = { .socket = -1 };

WRAP(bool, journal_is_stream, const char *variable, int fd)
{
    return journald.is_stream || __real_journal_is_stream(variable, fd);
}

WRAP(enum kiln_code, journal_open, const char *path, int *ret_fd, struct kiln_err *err)
{
    if (strncmp(path, "/run/", 5) != 0)
        return __real_journal_open(path, ret_fd, err);
    if (journald.fails)
        return kiln_fail(err, journald.fails, "nobody reads '%s'", path);
    *ret_fd = journald.socket;
    journald.socket = -1;
    return KILN_OK;
}

static void say_to_journald(void)
{
    struct kiln_err err = KILN_ERR_INIT;
    int ends[2];
    char got[4096] = "";
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    journald.socket = ends[1];
    must(log_set_format(LOG_FORMAT_JOURNAL, &err), err);
    log_event(LOG_EVENT_started, NULL, "by record");
    IN_TIME(assert_true(recv(ends[0], got, sizeof(got) - 1, 0) > 0));
    assert_says(got, "MESSAGE=by record\n");
    close(ends[0]);
    log_event(LOG_EVENT_started, NULL, "by line");
    must(log_set_format(LOG_FORMAT_TEXT, &err), err);
}

TEST(plain, log_records_become_lines_when_journald_has_gone)
{
    KILN_AUTO(mem) char *text = capture_stderr(say_to_journald);
    assert_null(strstr(text, "by record"));
    assert_says(text, "by line\n");
}

static void say_for_journalds_stream(void)
{
    struct kiln_err err = KILN_ERR_INIT;
    journald.is_stream = true;
    journald.fails = KILN_DENIED;
    must(log_set_format(LOG_FORMAT_AUTO, &err), err);
    log_event(LOG_EVENT_started, NULL, "all the same");
    assert_int_equal(log_set_format(LOG_FORMAT_JOURNAL, &err), KILN_DENIED);
    assert_says(err.text, "'/run/systemd/journal/socket'");
    assert_says(err.text, "text or");
    journald.is_stream = false;
    journald.fails = KILN_OK;
    must(log_set_format(LOG_FORMAT_AUTO, &err), err);
}

TEST(plain, without_journald_the_log_falls_back_to_lines_or_reports_an_error)
{
    KILN_AUTO(mem) char *text = capture_stderr(say_for_journalds_stream);
    assert_says(text, "no fields\n");
    assert_says(text, "<6>all"); /* with the priority prefix for journald */
}

static void say_to_nobody(void)
{
    int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    close(STDERR_FILENO);
    log_event(LOG_EVENT_started, NULL, "unheard");
    dup2(kept, STDERR_FILENO);
    close(kept);
    log_event(LOG_EVENT_started, NULL, "heard");
}

TEST(plain, a_closed_standard_error_does_not_end_the_process)
{
    KILN_AUTO(mem) char *text = capture_stderr(say_to_nobody);
    assert_string_equal(text, "info: heard\n");
}

static struct {
    enum log_level level;
    char message[64];
    unsigned count;
} taken;

static void take_record(enum log_level level, const char *message)
{
    taken.level = level;
    snprintf(taken.message, sizeof(taken.message), "%s", message);
    taken.count++;
}

static void say_to_a_sink(void)
{
    log_set_sink(take_record);
    log_event(LOG_EVENT_compiled, NULL, "below the level");
    log_event(LOG_EVENT_store_error, NULL, "full %u", 7u);
    log_set_sink(NULL);
    log_event(LOG_EVENT_reload_refused, NULL, "to all again");
}

TEST(plain, a_log_with_a_sink_writes_no_lines)
{
    KILN_AUTO(mem) char *text = capture_stderr(say_to_a_sink);
    assert_null(strstr(text, "full"));
    assert_says(text, "again");
    assert_int_equal(taken.count, 1);
    assert_string_equal(taken.message, "full 7");
    assert_true(taken.level <= LOG_LEVEL_WARNING);
}

TEST(plain, a_log_event_is_found_by_its_name)
{
    assert_int_equal(log_event_named("store_error"), LOG_EVENT_store_error);
    assert_int_equal(log_event_named("something else"), LOG_EVENT_notice);
}
