/* SPDX-License-Identifier: MIT */
#include "tests/faults/scene.h"

#include "common/base/clock.h"
#include "engine/package/package_writer.h"
#include "tests/faults/invariants.h"
#include "tests/faults/made_kernel.h"
#include "tests/support/child.h"
#include "tests/support/public_problem.h"

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
/* time of version 0 of a record, in ms; later versions have shorter times */
#define SLOWEST 1000000.0
#define ASK_MS (WAIT_MAX_S * 1000) /* time limit of an answer; a kilnd that takes longer hangs */
#define BATCH_MAX 64u
#define LEASED 1000u /* problems with this number or a higher one are tuned under a lease */
#define LEASED_SOLVER "SolverC"
#define REST_POLLS 20u
/* Number of kilnd's reader threads. Each one opens its own descriptor of a package when it first
 * looks up a kernel there. */
#define PACKAGE_READERS 4u
/* The prefix of inotify descriptors. kilnd may open two: one to watch held objects and one to watch
 * exported files. kilnd opens each when it first needs it. */
#define INOTIFY "anon_inode:inotify"
#define INOTIFY_MAX 2u

static bool is_deadly(const struct scene *s) { return fault_is_deadly(s->c->kind); }

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
    /* a client that does not reach this kilnd must fail instead of starting a private one */
    setenv("KILN_FALLBACK", "off", 1);
    daemon_process_init(&s->daemon);
    snprintf(c->report->directory, sizeof(c->report->directory), "%s", s->daemon.directory);
    memcpy(s->daemon.arguments, arguments, sizeof(arguments));
    s->daemon.keep_log = true;
    snprintf(s->plan_path, sizeof(s->plan_path), "%s/plan", s->daemon.directory);
    snprintf(s->files, sizeof(s->files), "%s/files", s->daemon.directory);
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

/* Selects whether programs that start from now on have the shim in LD_PRELOAD. */
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

static void start_kilnd(struct scene *s)
{
    unsigned before = atomic_load(&s->plan->programs);
    use_shim(s, true);
    daemon_process_start(&s->daemon);
    use_shim(s, false);
    if (!*s->plan->program || strcmp(s->plan->program, "kilnd") == 0)
        assert_true(atomic_load(&s->plan->programs) >
                    before); /* otherwise kilnd has no shim, and no fault could be injected */
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

void scene_start(struct scene *s)
{
    start_kilnd(s);
    scene_warm(s);
    scene_is_sound(s);
}

/* ---- descriptors ---- */

/* Lists kilnd's descriptors without those whose number varies: memfds (they depend on the hot set),
 * and those that kilnd opens when it first needs them and keeps. */
static void list_idle(const struct scene *s, struct descriptors *ret_seen)
{
    descriptors_list(s->daemon.pid, ret_seen);
    descriptors_remove(ret_seen, "/memfd:");
    descriptors_remove(ret_seen, ".kdb");
    descriptors_remove(ret_seen, INOTIFY);
}

/* Lists the descriptors several times and keeps those that are in every list, because kilnd opens
 * directories for a short time to scan them. */
void scene_rest(struct scene *s)
{
    list_idle(s, &s->resting);
    for (unsigned i = 1; i < REST_POLLS; i++) {
        struct descriptors now;
        poll(NULL, 0, 5);
        list_idle(s, &now);
        descriptors_keep_common(&s->resting, &now);
    }
    s->knows_rest = true;
}

static bool is_idle(struct scene *s, unsigned hot_objects)
{
    struct descriptors all, now;
    if (!s->knows_rest)
        return true;
    descriptors_list(s->daemon.pid, &all);
    list_idle(s, &now);
    unsigned objects = descriptors_count(&all, "/memfd:");
    unsigned packages = descriptors_count(&all, ".kdb");
    if (!descriptors_equal(&now, &s->resting, s->why))
        return false;
    unsigned watches = descriptors_count(&all, INOTIFY);
    if (objects == hot_objects && packages <= PACKAGE_READERS && watches <= INOTIFY_MAX)
        return true;
    snprintf(s->why, sizeof(s->why),
             "%u objects in memory, %u of them hot; %u of packages; %u of inotify", objects,
             hot_objects, packages, watches);
    return false;
}

static bool kilnd_answers(struct scene *s)
{
    struct kiln_error err = { 0 };
    struct kiln_client *client = scene_client(s);
    int rc = kiln_client_ping(client, 200, NULL, &err);
    kiln_client_close(client);
    return rc == KILN_E_OK;
}

static void print_log(const struct scene *s)
{
    char line[512];
    FILE *file = fopen(s->daemon.log, "re");
    while (file && fgets(line, sizeof(line), file))
        print_message("kilnd: %s", line);
    if (file)
        fclose(file);
}

/* Returns whether libuv ended kilnd after the fault. libuv calls abort if it gets no memory for the
 * tables of an event loop. */
static bool was_ended_by_libuv(const struct scene *s, int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
           atomic_load(&s->plan->injected) > 0 && strstr(s->plan->where, "libuv");
}

static void expect_ended(struct scene *s, int status)
{
    bool killed = (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && is_deadly(s)) ||
                  was_ended_by_libuv(s, status);
    s->daemon.pid = 0;
    /* kilnd exits with 1 after an error, and with 2 if its settings are invalid */
    if (killed || (WIFEXITED(status) && WEXITSTATUS(status) <= 2))
        return;
    print_log(s);
    fail_msg("kilnd ended with wait status 0x%x", (unsigned)status);
}

static off_t log_size(const struct scene *s)
{
    struct stat seen;
    return stat(s->daemon.log, &seen) == 0 ? seen.st_size : 0;
}

bool scene_try_start(struct scene *s)
{
    int status = 0;
    off_t before = log_size(s);
    use_shim(s, true);
    daemon_process_begin(&s->daemon);
    use_shim(s, false);
    uint64_t end = clock_monotonic_ns() + WAIT_MAX_S * UINT64_C(1000000000);
    while (clock_monotonic_ns() < end) {
        pid_t ended = waitpid(s->daemon.pid, &status, WNOHANG);
        if (ended == 0 && kilnd_answers(s))
            return true;
        if (ended == 0) {
            poll(NULL, 0, 2);
            continue;
        }
        expect_ended(s, status);
        assert_true(WIFSIGNALED(status) || log_size(s) > before);
        return false;
    }
    fail_msg("waited %d s for kilnd to serve or to exit", WAIT_MAX_S);
    return false;
}

void scene_reap(struct scene *s)
{
    if (s->daemon.pid != 0)
        expect_ended(s, await_process(s->daemon.pid, "the killed kilnd to end", WAIT_MAX_S));
}

bool scene_has_no_child(void *context)
{
    (void)context;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

void scene_stop(struct scene *s)
{
    assert_int_equal(kill(s->daemon.pid, SIGTERM), 0);
    int status = await_process(s->daemon.pid, "kilnd to stop", WAIT_MAX_S);
    expect_ended(s, status);
    assert_int_equal(status, 0);
    wait_until("the processes of kilnd to end", scene_has_no_child, NULL);
}

void scene_close(struct scene *s) { daemon_process_remove(&s->daemon); }

/* ---- requests ---- */

/* Returns true if kilnd need not answer: the fault kills it, or all later calls fail, too. */
static bool may_be_silent(const struct scene *s)
{
    bool injected = atomic_load(&s->plan->armed) && strcmp(s->program, "kilnd") == 0;
    return injected && (is_deadly(s) || s->c->kind->onwards);
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
                                                 .timeout_ms = ASK_MS,
                                                 .cache_entries = -1 };
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
        fail_msg("a call failed with code %d and without a message", rc);
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
    int rc = kiln_kernel_fetch_source(client, &source, &kernel, &err);
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
        fail_msg("an item of a batch failed without a message");
    else
        snprintf(batch->scene->why, sizeof(batch->scene->why), "%s", err->text);
    batch->came += kernel != NULL;
    return 0;
}

bool scene_fetch_batch(struct scene *s, struct kiln_client *client, unsigned count)
{
    struct kiln_kernel_source sources[BATCH_MAX];
    static char texts[BATCH_MAX][64];
    struct batch batch = { .scene = s, .first = s->kernel + 1 - count / 2 };
    struct kiln_error err = { 0 };
    if (!client)
        return false;
    for (unsigned i = 0; i < count; i++)
        sources[i] = source_of(batch.first + i, texts[i]);
    s->kernel += count / 2;
    const struct kiln_kernel_batch call = { .size = sizeof(call),
                                            .sources = sources,
                                            .count = count,
                                            .ready = on_ready,
                                            .context = &batch };
    int rc = kiln_kernel_fetch_batch(client, &call, &err);
    expect_in_time(s, rc, &err);
    bool ended = scene_ended(rc, &err);
    if (ended)
        assert_int_equal(batch.answered, count);
    return ended && batch.came == count;
}

/* Stores a measurement with a new driver version, because kilnd only replaces a record if the
 * driver versions differ. */
bool scene_put(struct scene *s, struct kiln_client *client, unsigned number)
{
    char driver[32];
    struct kiln_problem problem = public_test_problem(number + 1);
    struct kiln_error err = { 0 };
    unsigned version = s->version++;
    snprintf(driver, sizeof(driver), "6.%u", version);
    const struct kiln_measurement m = { .size = sizeof(m),
                                        .solver = "SolverC",
                                        .algorithm = "miopenConvolutionFwdAlgoWinograd",
                                        .samples = 1,
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
    int rc = kiln_find_put(client, &problem, &r, &err);
    expect_in_time(s, rc, &err);
    if (!scene_ended(rc, &err))
        return false;
    s->acknowledged[number] = version;
    return true;
}

static unsigned recorded_version(struct kiln_client *client, unsigned number)
{
    const struct kiln_tuning_options options = { .size = sizeof(options), .database_id = DEVICE };
    struct kiln_problem problem = public_test_problem(number + 1);
    struct kiln_tuned *tuned = NULL;
    struct kiln_error err = { 0 };
    struct kiln_tuned_entry entry = { .size = sizeof(entry) };
    int rc = kiln_find_get(client, &problem, &options, &tuned, &err);
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
    use_shim(s, atomic_load(&s->plan->armed) && strcmp(s->program, "kilnctl") == 0);
    run_program(&s->daemon, &s->result, "kilnctl", "--timeout", "60s", w[0], w[1], w[2], w[3], w[4],
                w[5], w[6], w[7], NULL);
    use_shim(s, false);
    if (s->result.status > 5)
        fail_msg("kilnctl ended with status %d: '%s'", s->result.status, s->result.output);
    if (s->result.status && !*s->result.output)
        fail_msg("kilnctl failed without a word");
    return s->result.status == 0;
}

/* ---- checks ---- */

static double number_after(const char *text, const char *name, bool all)
{
    double metric_sum = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *blank = strchr(line, ' ');
        if (strncmp(line, name, strlen(name)) == 0 && blank) {
            metric_sum += strtod(blank, NULL);
            if (!all)
                break;
        }
    }
    return metric_sum;
}

/* Returns 0 if the metric is absent. */
static double metric_value(const struct scene *s, const char *name)
{
    return number_after(s->result.output, name, false);
}

static double metric_sum(const struct scene *s, const char *name)
{
    return number_after(s->result.output, name, true);
}

/* Each fetch must have one result. Each fetch that was compiled or failed must count as one miss,
 * and a cancelled fetch may count, too. Nothing may be queued. */
static bool adds_up(const struct scene *s)
{
    double made = metric_value(s, "kiln_fetch_results_total{result=\"compiled\"} ") +
                  metric_value(s, "kiln_fetch_results_total{result=\"failed\"} ");
    double left = metric_value(s, "kiln_fetch_results_total{result=\"cancelled\"} ");
    double missed = metric_sum(s, "kiln_misses_total{");
    return metric_sum(s, "kiln_fetch_results_total{") == metric_value(s, "kiln_fetches_total ") &&
           made <= missed && missed <= made + left &&
           metric_value(s, "kiln_requests_in_flight ") <= 1 &&
           metric_value(s, "kiln_inflight_compiles ") == 0 &&
           metric_value(s, "kiln_queued_compiles ") == 0 &&
           metric_value(s, "kiln_queued_bytes ") == 0;
}

static bool is_sound(void *context)
{
    struct scene *s = context;
    static const char *const words[] = { "metrics", NULL };
    if (!scene_asks(s, words))
        fail_msg("kilnd does not tell its metrics: '%s'", s->result.output);
    snprintf(s->why, sizeof(s->why), "the counters do not add up");
    double hot = metric_value(s, "kiln_store_objects{tier=\"hot\",kind=\"objects\"} ");
    return adds_up(s) && is_idle(s, (unsigned)hot);
}

/* Returns whether kilnd has handled all puts. Each one counts as either stored or lost. */
static bool puts_have_ended(void *context)
{
    unsigned long long given, kept, lost;
    struct scene *s = context;
    static const char *const words[] = { "stats", "--json", NULL };
    if (!scene_asks(s, words))
        fail_msg("kilnd does not tell its counters: '%s'", s->result.output);
    struct json *stats = result_json(&s->result);
    given = stats_number(stats, "puts");
    kept = stats_number(stats, "puts_kept");
    lost = stats_number(stats, "puts_lost");
    json_destroy(stats);
    return given == kept + lost;
}

void scene_is_sound(struct scene *s)
{
    int status = 0;
    if (waitpid(s->daemon.pid, &status, WNOHANG) != 0) {
        s->daemon.pid = 0;
        print_log(s);
        fail_msg("kilnd ended with wait status 0x%x", (unsigned)status);
    }
    if (!holds_in_time(is_sound, s))
        fail_msg("%s: %.3000s", s->why, s->result.output);
    if (!holds_in_time(puts_have_ended, s))
        fail_msg("what was to be stored is neither kept nor lost: %.3000s", s->result.output);
}

struct options {
    struct scene *scene;
    struct kiln_client *client;
    unsigned number;
};

static bool fetch_succeeds(void *context)
{
    struct options *w = context;
    return scene_fetch(w->scene, w->client, w->number);
}

static void serves_kernels(struct scene *s, struct kiln_client *client)
{
    assert_non_null(client);
    for (unsigned i = 1; i <= SCENE_WARM + 1; i++) {
        struct options options = { s, client, i <= SCENE_WARM ? i : ++s->kernel };
        if (!holds_in_time(fetch_succeeds, &options))
            fail_msg("kernel %u does not come: '%s'", options.number, s->why);
    }
}

void scene_serves_kernels(struct scene *s)
{
    struct kiln_client *client = scene_client(s);
    serves_kernels(s, client);
    kiln_client_close(client);
}

/* ---- leases ---- */

static int take_lease(struct kiln_client *client, unsigned number, struct kiln_lease *ret_lease,
                      struct kiln_error *err)
{
    const struct kiln_problem problem = public_test_problem(LEASED + number + 1);
    const struct kiln_lease_request request = { .size = sizeof(request),
                                                .database_id = DEVICE,
                                                .solver = LEASED_SOLVER };
    *ret_lease = (struct kiln_lease){ .size = sizeof(*ret_lease) };
    return kiln_lease_take(client, &problem, &request, ret_lease, err);
}

bool scene_tune(struct scene *s, struct kiln_client *client)
{
    struct kiln_error err = { 0 };
    struct kiln_lease lease;
    const struct kiln_measurement m = {
        .size = sizeof(m), .solver = LEASED_SOLVER, .params = "1,2", .samples = 1, .median_ms = 2
    };
    const struct kiln_recording r = { .size = sizeof(r),
                                      .database_id = DEVICE,
                                      .tier = KILN_TUNING_USER,
                                      .measurements = &m,
                                      .measurement_count = 1 };
    unsigned number = ++s->tuned;
    if (!client)
        return false;
    int rc = take_lease(client, number, &lease, &err);
    if (!rc) {
        assert_int_equal(lease.state, KILN_LEASE_GRANTED);
        rc = kiln_lease_report(client, &lease, &r, &lease, &err);
    }
    expect_in_time(s, rc, &err);
    if (!scene_ended(rc, &err))
        return false;
    assert_int_equal(lease.state, KILN_LEASE_DONE);
    s->tuned_kept = number;
    return true;
}

static bool lease_is_free(void *context)
{
    struct scene *s = context;
    struct kiln_client *client = scene_client(s);
    struct kiln_error err = { 0 };
    struct kiln_lease lease;
    int rc = take_lease(client, s->tuned, &lease, &err);
    kiln_client_close(client);
    must(rc, err);
    return lease.state != KILN_LEASE_TAKEN;
}

/* If the latest lease ended with a result that kilnd acknowledged, the result must be recorded. The
 * lease must be free again. */
static void serves_leases(struct scene *s, struct kiln_client *client)
{
    const struct kiln_tuning_options options = { .size = sizeof(options), .database_id = DEVICE };
    struct kiln_problem problem = public_test_problem(LEASED + s->tuned_kept + 1);
    struct kiln_tuned *tuned = NULL;
    struct kiln_error err = { 0 };
    if (s->tuned_kept > 0)
        must(kiln_perf_get(client, &problem, &options, &tuned, &err), err);
    kiln_tuned_free(tuned);
    if (s->tuned > 0)
        wait_until("the lease to be released", lease_is_free, s);
}

/* ---- prefetched kernels ---- */

static bool prefetch_problem(struct scene *s, unsigned number)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/lines-%u", s->files, number);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "conv -n 1 -c 8 -k %u -H 8 -W 8 -F 1\n", 8 * number);
    assert_int_equal(fclose(file), 0);
    const char *const words[] = { "prefetch", path, "--target", MADE_TARGET, "--json", NULL };
    return scene_asks(s, words);
}

bool scene_prefetch(struct scene *s)
{
    unsigned number = ++s->prefetch;
    bool stored = prefetch_problem(s, number);
    s->prefetch_kept = stored ? number : s->prefetch_kept;
    return stored;
}

static void serves_prefetched(struct scene *s)
{
    if (s->prefetch_kept == 0)
        return;
    assert_true(prefetch_problem(s, s->prefetch_kept));
    if (!strstr(s->result.output, "\"compiles\":0"))
        fail_msg("a kernel was stored, and is compiled anew: %s", s->result.output);
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
    serves_leases(s, client);
    serves_prefetched(s);
    kiln_client_close(client);
}

static void expect_nothing_left(const struct scene *s)
{
    static const char *const known[] = { "home", "run",       "pocl",  "cache", "state",
                                         "plan", "kilnd.log", "files", "notify" };
    DIR *dir = opendir(s->daemon.directory);
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
    snprintf(cache, sizeof(cache), "%s/cache", s->daemon.directory);
    snprintf(state, sizeof(state), "%s/state", s->daemon.directory);
    expect_sound_kernels(cache);
    expect_sound_tuning(state);
    expect_no_file(cache, "damaged");
    expect_no_file(state, "damaged");
    s->knows_rest = false;
    start_kilnd(s);
    scene_serves(s);
    scene_is_sound(s);
    scene_stop(s);
    expect_tidy_tuning(state);
    expect_nothing_left(s);
}
