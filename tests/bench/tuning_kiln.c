/* SPDX-License-Identifier: MIT */

/* Looks up tuning records with libkiln, which asks a kilnd over its socket. */
#include "tests/bench/tuning_way.h"
#include "tests/support/public_problem.h"

#include <kiln/tuning.h>

#include <string.h>

#define TIMEOUT_MS 30000
#define BATCH_MAX 1000u

struct kiln_state {
    struct kiln_client *client;
    enum tuning_kind kind;
    struct tuning_file_name name;
    struct kiln_tuning_options options;
};

static enum kiln_code fail_client(const struct kiln_error *error, struct kiln_err *err)
{
    return kiln_fail(err, (enum kiln_code)error->code, "kiln: %s", error->text);
}

static void guest_close(void *state)
{
    struct kiln_state *g = state;
    if (g)
        kiln_client_close(g->client);
    free(g);
}

static enum kiln_code connect_client(struct kiln_state *g, const struct way_place *place,
                                     struct kiln_err *err)
{
    enum kiln_code rc = tuning_file_name_parse(place->data->name, &g->name, err);
    if (rc)
        return rc;
    g->kind = place->data->kind;
    g->options = (struct kiln_tuning_options){
        .size = sizeof(g->options),
        .timeout_ms = TIMEOUT_MS,
        .database_id = g->name.database_id,
    };
    struct kiln_client_options options = { .size = sizeof(options),
                                           .socket_path = place->kiln_socket,
                                           .timeout_ms = TIMEOUT_MS,
                                           .name = "bench" };
    struct kiln_error error = { 0 };
    return kiln_client_open(&options, &g->client, &error) ? fail_client(&error, err) : KILN_OK;
}

static enum kiln_code guest_open(const struct way_place *place, void **ret_state,
                                 struct kiln_err *err)
{
    struct kiln_state *g = calloc(1, sizeof(*g));
    enum kiln_code rc = g ? connect_client(g, place, err)
                          : kiln_fail(err, KILN_NO_MEMORY, "cannot open a kiln client");
    if (rc)
        guest_close(g);
    else
        *ret_state = g;
    return rc;
}

static enum kiln_code kiln_connect(void *state, struct kiln_err *err)
{
    struct kiln_state *g = state;
    struct kiln_error error = { 0 };
    return kiln_client_ping(g->client, TIMEOUT_MS, NULL, &error) ? fail_client(&error, err)
                                                                 : KILN_OK;
}

/* Reads all entries, as a program must to choose a solver. */
static enum kiln_code read_entries(const struct kiln_tuned *tuned, struct kiln_err *err)
{
    struct kiln_error error = { 0 };
    unsigned count = kiln_tuned_count(tuned);
    for (unsigned i = 0; i < count; i++) {
        struct kiln_tuned_entry entry = { .size = sizeof(entry) };
        if (kiln_tuned_entry(tuned, i, &entry, &error))
            return fail_client(&error, err);
    }
    return count ? KILN_OK
                 : kiln_fail(err, KILN_CORRUPT, "'%s' has no entries", kiln_tuned_key(tuned));
}

static enum kiln_code kiln_ask(void *state, const struct data_question *question,
                               struct kiln_err *err)
{
    struct kiln_state *g = state;
    struct kiln_problem problem = public_problem(&question->problem);
    struct kiln_tuned *tuned;
    struct kiln_error error = { 0 };
    int rc = (g->kind == TUNING_FIND ? kiln_find_get : kiln_perf_get)(g->client, &problem,
                                                                      &g->options, &tuned, &error);
    if (rc)
        return fail_client(&error, err);
    enum kiln_code read = read_entries(tuned, err);
    kiln_tuned_free(tuned);
    return read;
}

enum kiln_code way_kiln_batch(void *state, const struct data_question *questions, size_t count,
                              struct kiln_err *err)
{
    static struct kiln_problem problems[BATCH_MAX];
    static struct kiln_tuned *tuned[BATCH_MAX];
    struct kiln_state *g = state;
    if (count > BATCH_MAX)
        return kiln_fail(err, KILN_INVALID, "a batch here has at most %u problems", BATCH_MAX);
    for (size_t i = 0; i < count; i++)
        problems[i] = public_problem(&questions[i].problem);
    struct kiln_error error = { 0 };
    const struct kiln_tuning_batch batch = {
        .size = sizeof(batch), .problems = problems, .count = count, .options = &g->options
    };
    int rc = (g->kind == TUNING_FIND ? kiln_find_get_batch : kiln_perf_get_batch)(g->client, &batch,
                                                                                  tuned, &error);
    if (rc)
        return fail_client(&error, err);
    enum kiln_code read = KILN_OK;
    for (size_t i = 0; i < count; i++) {
        if (!read && !tuned[i])
            read = kiln_fail(err, KILN_NOT_FOUND, "kiln has no '%s'", questions[i].key);
        if (!read)
            read = read_entries(tuned[i], err);
        kiln_tuned_free(tuned[i]);
    }
    return read;
}

const struct tuning_way way_kiln = {
    .name = "kiln",
    .open = guest_open,
    .connect = kiln_connect,
    .ask = kiln_ask,
    .close = guest_close,
};
