/* SPDX-License-Identifier: MIT */

/* Looks up with kiln's engine in this process, as kilnd does, without the socket. */
#include "engine/tuning/tuning.h"
#include "tests/bench/tuning_way.h"

struct inside {
    struct tuning *tuning;
    struct tuning_question question;
    struct tuning_file_name name;
};

static void inside_close(void *state)
{
    struct inside *s = state;
    if (s)
        tuning_destroy(s->tuning);
    free(s);
}

static enum kiln_code open_databases(struct inside *s, const struct way_place *place,
                                     struct kiln_err *err)
{
    char notice[512];
    const struct tuning_options options = { .directory = place->state };
    enum kiln_code rc = tuning_file_name_parse(place->data->name, &s->name, err);
    if (!rc)
        rc = tuning_open(&options, &s->tuning, notice, err);
    s->question = (struct tuning_question){ .kind = place->data->kind,
                                            .database_id = s->name.database_id,
                                            .backend = s->name.backend,
                                            .driver = "",
                                            .toolchain = "" };
    return rc;
}

static enum kiln_code inside_open(const struct way_place *place, void **ret_state,
                                  struct kiln_err *err)
{
    struct inside *s = calloc(1, sizeof(*s));
    enum kiln_code rc = s ? open_databases(s, place, err)
                          : kiln_fail(err, KILN_NO_MEMORY, "cannot open the databases");
    if (rc)
        inside_close(s);
    else
        *ret_state = s;
    return rc;
}

static enum kiln_code inside_ask(void *state, const struct data_question *question,
                                 struct kiln_err *err)
{
    struct inside *s = state;
    struct tuning_answer answer;
    s->question.problem = &question->problem;
    enum kiln_code rc = tuning_find(s->tuning, &s->question, &answer, err);
    if (rc)
        return kiln_fail(err, rc, "kiln has no '%s'", question->key);
    return answer.value.size ? KILN_OK
                             : kiln_fail(err, KILN_CORRUPT, "'%s' has no entries", question->key);
}

const struct tuning_way way_engine = {
    .name = "engine",
    .open = inside_open,
    .ask = inside_ask,
    .close = inside_close,
};
