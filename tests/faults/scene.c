/* SPDX-License-Identifier: MIT */
#include "tests/faults/scene.h"

#include "common/clock.h"
#include "engine/package/package_writer.h"
#include "tests/faults/invariants.h"
#include "tests/faults/made_kernel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DEVICE "gfx90a68"
#define SLOWEST 1000000.0 /* ms, of version 0 */
#define SILENT_MS 500     /* where it may be, it is */
#define ASK_MS 20000      /* no answer within is a hang */
#define BATCH_MOST 64u
#define END_SECONDS 60
/* Of 5 ms without a call that counts: it did what it does after it answered. */
#define QUIET_POLLS 3u
#define POLLS_MOST 100u
#define REST_POLLS 10u

static bool is_deadly(const struct scene *s)
{
    return s->c->kind->action == FAULT_KILL || s->c->kind->action == FAULT_TEAR;
}

/* ---- files ---- */

static void write_text(const struct scene *s, const char *name, unsigned count)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", s->files, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    for (unsigned i = 1; i <= count; i++) {
        char line[256];
        snprintf(line, sizeof(line),
                 "8-56-56-3x3-64-56-56-%u-1x1-1x1-1x1-0-NCHW-FP32-F=ConvA:%u,0,"
                 "miopenConvolutionFwdAlgoDirect\n",
                 i, i);
        fputs(line, file);
    }
    assert_int_equal(fclose(file), 0);
}

static void write_package(const struct scene *s, const char *name, unsigned count)
{
    char path[256];
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(package_writer) struct package_writer *writer = NULL;
    snprintf(path, sizeof(path), "%s/%s", s->files, name);
    must(package_writer_create(path, PACKAGE_KDB, &writer, &err), err);
    for (unsigned i = 0; i < count; i++) {
        char kernel[64];
        uint8_t raw[2000];
        for (size_t at = 0; at < sizeof(raw); at++)
            raw[at] = made_byte(i, at);
        snprintf(kernel, sizeof(kernel), "Kernel%03u.o", i);
        const struct package_entry entry = { .name = bytes_of_text(kernel),
                                             .args = bytes_of_text("-DFP32=1"),
                                             .raw = bytes_of(raw, sizeof(raw)) };
        must(package_writer_add(writer, &entry, &err), err);
    }
    must(package_writer_finish(writer, &err), err);
}

void scene_open(struct scene *s, const struct fault_case *c, const char *program)
{
    *s = (struct scene){ .c = c, .program = program, .kernel = SCENE_WARM, .version = 1 };
    static const char *const arguments[] = { "--workers",   "1",
                                             "--compiler",  KILN_BIN "/../tests/fault_compiler",
                                             "--hot-limit", "64MiB",
                                             NULL };
    daemon_process_init(&s->daemon);
    snprintf(c->report->folder, sizeof(c->report->folder), "%s", s->daemon.folder);
    memcpy(s->daemon.arguments, arguments, sizeof(arguments));
    s->daemon.keep_log = true;
    snprintf(s->plan_path, sizeof(s->plan_path), "%s/plan", s->daemon.folder);
    snprintf(s->files, sizeof(s->files), "%s/files", s->daemon.folder);
    assert_int_equal(mkdir(s->files, 0755), 0);
    s->plan = fault_plan_make(s->plan_path);
    assert_non_null(s->plan);
    s->plan->no_sync = true;
    snprintf(s->plan->program, sizeof(s->plan->program), "%s", *program ? program : "nobody");
    write_text(s, DEVICE ".HIP.fdb.txt", 20);
    write_text(s, DEVICE ".HIP.2_17_0_a82233c22.ufdb.txt", 20);
    write_package(s, DEVICE ".kdb", 8);
    write_package(s, DEVICE ".ukdb", 8);
}

/* ---- kilnd ---- */

/* For what is started next. */
static void use_shim(const struct scene *s, bool uses)
{
    const char *options = getenv("ASAN_OPTIONS");
    char more[512];
    if (!uses) {
        unsetenv("LD_PRELOAD");
        return;
    }
    if (!options || !strstr(options, "verify_asan_link_order")) {
        snprintf(more, sizeof(more), "%s:verify_asan_link_order=0", options ? options : "");
        setenv("ASAN_OPTIONS", more, 1);
    }
    setenv("LD_PRELOAD", KILN_BIN "/../tests/fault_shim.so", 1);
    setenv(FAULT_PLAN_VARIABLE, s->plan_path, 1);
}

static void start(struct scene *s)
{
    unsigned before = atomic_load(&s->plan->programs);
    use_shim(s, true);
    daemon_process_start(&s->daemon);
    use_shim(s, false);
    if (!*s->plan->program || strcmp(s->plan->program, "kilnd") == 0)
        assert_true(atomic_load(&s->plan->programs) > before); /* else no fault reaches it */
}

/* Descriptors but those of objects in memory, which come and go with the hot set. */
static unsigned count_files(const struct scene *s, bool says)
{
    char folder[64], link[64 + 256], target[64];
    unsigned count = 0;
    snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)s->daemon.pid);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        snprintf(link, sizeof(link), "%s/%s", folder, e->d_name);
        ssize_t got = readlink(link, target, sizeof(target) - 1);
        target[got > 0 ? got : 0] = '\0';
        bool counts = got > 0 && strncmp(target, "/memfd:", 7) != 0;
        if (counts && says)
            print_message("descriptor %s: %s\n", e->d_name, target);
        count += counts;
    }
    closedir(dir);
    return count;
}

void scene_warm(struct scene *s)
{
    struct kiln_client *client = scene_client(s);
    for (unsigned i = 1; i <= SCENE_WARM; i++)
        assert_true(scene_fetch(s, client, i));
    for (unsigned i = 0; i < SCENE_RECORDS; i++)
        assert_true(scene_put(s, client, i));
    kiln_client_close(client);
}

void scene_start(struct scene *s, unsigned more_files)
{
    start(s);
    scene_warm(s);
    scene_is_sound(s);
    for (unsigned i = 0; i < REST_POLLS; i++) { /* a look at folders may be under way, or not */
        unsigned files = count_files(s, false);
        s->resting_files = files > s->resting_files ? files : s->resting_files;
        poll(NULL, 0, 5);
    }
    s->resting_files += more_files;
}

static bool answers(struct scene *s)
{
    struct kiln_error err = { 0 };
    struct kiln_client *client = scene_client(s);
    int rc = kiln_client_ping(client, 200, NULL, &err);
    kiln_client_close(client);
    return rc == KILN_E_OK;
}

static void say_log(const struct scene *s)
{
    char path[160], line[512];
    snprintf(path, sizeof(path), "%s/kilnd.log", s->daemon.folder);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        print_message("kilnd: %s", line);
    if (file)
        fclose(file);
}

static void expect_ended(struct scene *s, int status)
{
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && is_deadly(s);
    s->daemon.pid = 0;
    if (killed || (WIFEXITED(status) && WEXITSTATUS(status) <= 2)) /* 2: of what it was told */
        return;
    say_log(s);
    fail_msg("kilnd ended with wait status 0x%x", (unsigned)status);
}

bool scene_try_start(struct scene *s)
{
    char cache[128], state[128], text[4096];
    int status = 0, output = -1;
    snprintf(cache, sizeof(cache), "%s/cache", s->daemon.folder);
    snprintf(state, sizeof(state), "%s/state", s->daemon.folder);
    use_shim(s, true);
    s->daemon.pid = start_program(&s->daemon, &output, "kilnd", "--socket", s->daemon.socket,
                                  "--cache-dir", cache, "--state-dir", state, "--workers", "1",
                                  "--compiler", KILN_BIN "/../tests/fault_compiler", NULL);
    use_shim(s, false);
    uint64_t end = clock_monotonic_ns() + END_SECONDS * UINT64_C(1000000000);
    while (clock_monotonic_ns() < end) {
        pid_t ended = waitpid(s->daemon.pid, &status, WNOHANG);
        if (ended == 0 && !answers(s)) {
            poll(NULL, 0, 2);
            continue;
        }
        ssize_t got = ended ? read(output, text, sizeof(text) - 1) : 0;
        text[got > 0 ? got : 0] = '\0';
        fcntl(output, F_SETFD, FD_CLOEXEC); /* stays open: kilnd goes on writing to it */
        if (!ended)
            return true;
        print_message("kilnd: %s", text);
        expect_ended(s, status);
        close(output);
        assert_true(WIFSIGNALED(status) || got > 0); /* it says why */
        return false;
    }
    fail_msg("kilnd neither serves nor ends");
    return false;
}

static unsigned calls_seen(const struct scene *s) { return atomic_load(&s->plan->seen); }

void scene_settle(struct scene *s)
{
    unsigned quiet = 0;
    for (unsigned polls = 0; quiet < QUIET_POLLS && polls < POLLS_MOST; polls++) {
        unsigned seen = calls_seen(s);
        poll(NULL, 0, 5);
        quiet = calls_seen(s) == seen ? quiet + 1 : 0;
    }
}

void scene_reap(struct scene *s)
{
    int status = 0;
    uint64_t end = clock_monotonic_ns() + END_SECONDS * UINT64_C(1000000000);
    if (s->daemon.pid == 0)
        return;
    while (waitpid(s->daemon.pid, &status, WNOHANG) == 0) {
        if (clock_monotonic_ns() > end)
            fail_msg("kilnd was to be killed, and lives");
        poll(NULL, 0, 2);
    }
    expect_ended(s, status);
}

static bool no_child(void *context)
{
    (void)context;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

void scene_stop(struct scene *s)
{
    int status = 0;
    assert_int_equal(kill(s->daemon.pid, SIGTERM), 0);
    uint64_t end = clock_monotonic_ns() + END_SECONDS * UINT64_C(1000000000);
    while (waitpid(s->daemon.pid, &status, WNOHANG) == 0) {
        if (clock_monotonic_ns() > end)
            fail_msg("kilnd does not end");
        poll(NULL, 0, 2);
    }
    expect_ended(s, status);
    assert_int_equal(status, 0);
    if (!wait_until(no_child, NULL))
        fail_msg("a process outlives kilnd");
}

void scene_close(struct scene *s) { daemon_process_remove(&s->daemon); }

/* ---- asking ---- */

/* Whether no answer is one: kilnd is to be killed in what is asked now, or all that it needs to
 * answer fails as long as it is waited for. */
static bool may_be_silent(const struct scene *s)
{
    bool struck = atomic_load(&s->plan->armed) && strcmp(s->program, "kilnd") == 0;
    return struck && (is_deadly(s) || s->c->kind->onwards);
}

static void expect_in_time(const struct scene *s, int rc, const struct kiln_error *err)
{
    if (rc == KILN_E_TIMED_OUT && !may_be_silent(s))
        fail_msg("no answer: '%s'", err->text);
}

struct kiln_client *scene_client(const struct scene *s)
{
    const struct kiln_client_options options = { .size = sizeof(options),
                                                 .socket_path = s->daemon.socket,
                                                 .timeout_ms =
                                                     may_be_silent(s) ? SILENT_MS : ASK_MS,
                                                 .table_entries = -1 };
    struct kiln_client *client = NULL;
    struct kiln_error err = { 0 };
    if (!scene_ended(kiln_client_open(&options, &client, &err), &err))
        return NULL;
    return client;
}

bool scene_ended(int rc, const struct kiln_error *err)
{
    if (rc == KILN_E_OK)
        return true;
    if (!*err->text)
        fail_msg("a call failed with code %d and without a sentence", rc);
    return false;
}

static struct kiln_kernel_source source_of(unsigned number, char text[64])
{
    made_source(number, text);
    return (struct kiln_kernel_source){ .size = sizeof(struct kiln_kernel_source),
                                        .target = MADE_TARGET,
                                        .toolchain = MADE_TOOLCHAIN,
                                        .program = "made.cl",
                                        .source = text };
}

static void expect_bytes(const struct kiln_kernel *kernel, unsigned number)
{
    const uint8_t *data = kiln_kernel_data(kernel);
    assert_int_equal(kiln_kernel_size(kernel), made_size(number));
    for (size_t i = 0; i < made_size(number); i++)
        if (data[i] != made_byte(number, i))
            fail_msg("kernel %u has another byte at %zu", number, i);
}

bool scene_fetch(struct scene *s, struct kiln_client *client, unsigned number)
{
    char text[64];
    struct kiln_kernel_source source = source_of(number, text);
    struct kiln_kernel *kernel = NULL;
    struct kiln_error err = { 0 };
    if (!client)
        return false;
    int rc = kiln_kernel_fetch_source(client, &source, 0, &kernel, &err);
    expect_in_time(s, rc, &err);
    snprintf(s->why, sizeof(s->why), "%s", err.text);
    if (!scene_ended(rc, &err))
        return false;
    expect_bytes(kernel, number);
    kiln_kernel_unref(kernel);
    return true;
}

struct batch {
    struct scene *scene;
    unsigned first, came, answered;
};

static int on_ready(void *context, size_t index, struct kiln_kernel *kernel,
                    const struct kiln_error *err)
{
    struct batch *batch = context;
    batch->answered++;
    if (kernel)
        expect_bytes(kernel, batch->first + (unsigned)index);
    else if (!*err->text)
        fail_msg("an item failed without a sentence");
    else
        snprintf(batch->scene->why, sizeof(batch->scene->why), "%s", err->text);
    batch->came += kernel != NULL;
    return 0;
}

/* Half of them are there, half new. */
bool scene_fetch_batch(struct scene *s, struct kiln_client *client, unsigned count)
{
    struct kiln_kernel_source sources[BATCH_MOST];
    static char texts[BATCH_MOST][64];
    struct batch batch = { .scene = s, .first = s->kernel + 1 - count / 2 };
    struct kiln_error err = { 0 };
    if (!client)
        return false;
    for (unsigned i = 0; i < count; i++)
        sources[i] = source_of(batch.first + i, texts[i]);
    s->kernel += count / 2;
    int rc = kiln_kernel_fetch_batch(client, NULL, sources, count, 0, on_ready, &batch, &err);
    expect_in_time(s, rc, &err);
    bool ended = scene_ended(rc, &err);
    if (ended)
        assert_int_equal(batch.answered, count);
    return ended && batch.came == count;
}

static struct kiln_problem problem_of(unsigned number)
{
    return (struct kiln_problem){ .size = sizeof(struct kiln_problem),
                                  .spatial_dims = 2,
                                  .n = number + 1,
                                  .c = 4,
                                  .k = 8,
                                  .groups = 1,
                                  .in = { 1, 8, 8 },
                                  .filter = { 1, 3, 3 },
                                  .pad = { 0, 1, 1 },
                                  .stride = { 1, 1, 1 },
                                  .dilation = { 1, 1, 1 } };
}

/* Each with another driver than the one before, so that it replaces that. */
bool scene_put(struct scene *s, struct kiln_client *client, unsigned number)
{
    char driver[32];
    struct kiln_problem problem = problem_of(number);
    struct kiln_error err = { 0 };
    unsigned version = s->version++;
    snprintf(driver, sizeof(driver), "6.%u", version);
    const struct kiln_measurement m = { .size = sizeof(m),
                                        .solver = "SolverC",
                                        .algorithm = "miopenConvolutionFwdAlgoWinograd",
                                        .samples = 11,
                                        .median_ms = SLOWEST - version };
    const struct kiln_recording r = { .size = sizeof(r),
                                      .database_id = DEVICE,
                                      .tier = KILN_TUNING_USER,
                                      .driver = driver,
                                      .measurements = &m,
                                      .measurement_count = 1 };
    if (!client)
        return false;
    s->tried[number] = version;
    int rc = kiln_find_put(client, &problem, &r, 0, &err);
    expect_in_time(s, rc, &err);
    if (!scene_ended(rc, &err))
        return false;
    s->acknowledged[number] = version;
    return true;
}

static unsigned recorded_version(struct kiln_client *client, unsigned number)
{
    const struct kiln_tuning_options options = { .size = sizeof(options), .database_id = DEVICE };
    struct kiln_problem problem = problem_of(number);
    struct kiln_tuned *tuned = NULL;
    struct kiln_error err = { 0 };
    struct kiln_tuned_entry entry = { .size = sizeof(entry) };
    int rc = kiln_find_get(client, &problem, &options, 0, &tuned, &err);
    if (rc == KILN_E_NOT_FOUND)
        return 0;
    must(rc, err);
    must(kiln_tuned_entry(tuned, 0, &entry, &err), err);
    unsigned version = (unsigned)(SLOWEST - entry.time_ms + 0.5);
    kiln_tuned_free(tuned);
    return version;
}

bool scene_asks(struct scene *s, const char *const *words)
{
    const char *w[8] = { NULL };
    for (size_t i = 0; words[i]; i++)
        w[i] = words[i];
    run_program(&s->daemon, &s->result, "kilnctl", "--timeout", may_be_silent(s) ? "1s" : "20s",
                w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], NULL);
    if (s->result.status > 5)
        fail_msg("kilnctl ended with status %d: '%s'", s->result.status, s->result.output);
    if (s->result.status && !*s->result.output)
        fail_msg("kilnctl failed without a word");
    return s->result.status == 0;
}

/* ---- what must hold ---- */

static double number_after(const char *text, const char *name, bool all)
{
    double sum = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *blank = strchr(line, ' ');
        if (strncmp(line, name, strlen(name)) == 0 && blank) {
            sum += strtod(blank, NULL);
            if (!all)
                break;
        }
    }
    return sum;
}

/* Each kernel that was asked for is counted once. */
static bool adds_up(void *context)
{
    struct scene *s = context;
    static const char *const words[] = { "metrics", NULL };
    if (!scene_asks(s, words))
        fail_msg("kilnd does not tell its metrics: '%s'", s->result.output);
    const char *page = s->result.output;
    return number_after(page, "kiln_fetch_results_total{", true) ==
               number_after(page, "kiln_fetches_total ", false) &&
           number_after(page, "kiln_requests_in_flight ", false) <= 1;
}

static bool is_at_rest(void *context)
{
    struct scene *s = context;
    return s->resting_files == 0 || count_files(s, false) <= s->resting_files;
}

void scene_is_sound(struct scene *s)
{
    int status = 0;
    if (waitpid(s->daemon.pid, &status, WNOHANG) != 0) {
        s->daemon.pid = 0;
        say_log(s);
        fail_msg("kilnd ended with wait status 0x%x", (unsigned)status);
    }
    if (!wait_until(adds_up, s))
        fail_msg("the counters do not add up: %.3000s", s->result.output);
    if (!wait_until(is_at_rest, s))
        fail_msg("kilnd has %u descriptors at rest, and had %u", count_files(s, true),
                 s->resting_files);
}

struct wish {
    struct scene *scene;
    struct kiln_client *client;
    unsigned number;
};

static bool comes(void *context)
{
    struct wish *w = context;
    return scene_fetch(w->scene, w->client, w->number);
}

/* A compiler that ended is started again after a while. */
static void serves_kernels(struct scene *s, struct kiln_client *client)
{
    assert_non_null(client);
    for (unsigned i = 1; i <= SCENE_WARM + 1; i++) {
        struct wish wish = { s, client, i <= SCENE_WARM ? i : ++s->kernel };
        if (!wait_until(comes, &wish))
            fail_msg("kernel %u does not come: '%s'", wish.number, s->why);
    }
}

void scene_serves_kernels(struct scene *s)
{
    struct kiln_client *client = scene_client(s);
    serves_kernels(s, client);
    kiln_client_close(client);
}

void scene_serves(struct scene *s)
{
    struct kiln_client *client = scene_client(s);
    serves_kernels(s, client);
    for (unsigned i = 0; i < SCENE_RECORDS; i++) {
        unsigned version = recorded_version(client, i);
        if (version < s->acknowledged[i] || version > s->tried[i])
            fail_msg("record %u has version %u: %u was acknowledged, %u tried", i, version,
                     s->acknowledged[i], s->tried[i]);
        s->acknowledged[i] = version;
    }
    kiln_client_close(client);
}

static void expect_nothing_left(const struct scene *s)
{
    static const char *const known[] = { "home",  "run",  "pocl",      "cache",
                                         "state", "plan", "kilnd.log", "files" };
    DIR *dir = opendir(s->daemon.folder);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        bool is_known = e->d_name[0] == '.';
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            is_known |= strcmp(e->d_name, known[i]) == 0;
        if (!is_known && strncmp(e->d_name, "kilnd.sock", 10) != 0)
            fail_msg("'%s' was left behind", e->d_name);
    }
    closedir(dir);
}

void scene_survives(struct scene *s)
{
    char cache[128], state[128];
    snprintf(cache, sizeof(cache), "%s/cache", s->daemon.folder);
    snprintf(state, sizeof(state), "%s/state", s->daemon.folder);
    expect_sound_kernels(cache);
    expect_sound_tuning(state);
    expect_no_file(cache, "damaged");
    expect_no_file(state, "damaged");
    s->resting_files = 0;
    start(s);
    scene_serves(s);
    scene_is_sound(s);
    scene_stop(s);
    expect_nothing_left(s);
}
