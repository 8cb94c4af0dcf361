/* SPDX-License-Identifier: MIT */

/* Requests plans from the data built into this program, for every problem in a file of MIOpenDriver
 * command lines: plans TARGET ID PROBLEMS|- [TOOLCHAIN].
 *
 * Each plan must have its code objects, which the engine has checked for the target. The code
 * objects must come from a package or, if TOOLCHAIN is given, from that compiler. */
#include <kiln/plan.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct question {
    struct kiln_client *client;
    const char *target, *id, *toolchain;
    unsigned problems, objects;
};

static int take_plan(struct question *q, const struct kiln_problem *problem, struct kiln_error *err)
{
    const struct kiln_plan_options options = { .size = sizeof(options),
                                               .target = q->target,
                                               .database_id = q->id };
    struct kiln_plan *plan = NULL;
    int rc = kiln_plan_get(q->client, problem, &options, &plan, err);
    if (rc)
        return rc;
    q->problems++;
    q->objects += kiln_plan_object_count(plan);
    if (strcmp(kiln_plan_toolchain(plan), q->toolchain) != 0) {
        rc = KILN_E_INVALID;
        snprintf(err->text, sizeof(err->text), "a plan is by %s, not by %s",
                 kiln_plan_toolchain(plan), q->toolchain);
    }
    kiln_plan_unref(plan);
    return rc;
}

static int take_line(struct question *q, const char *text, struct kiln_error *err)
{
    struct kiln_driver_line line = { .size = sizeof(line) };
    int rc = kiln_driver_line_parse(text, &line, err);
    if (rc == KILN_E_NOT_FOUND)
        return KILN_E_OK; /* the line is a comment */
    for (unsigned i = 0; !rc && i < line.count; i++)
        rc = take_plan(q, &line.problems[i], err);
    return rc;
}

int main(int argc, char **argv)
{
    struct kiln_error err = { 0 };
    struct question q = { .toolchain = argc > 4 ? argv[4] : "package" };
    char text[1024];
    FILE *file = argc <= 3 ? NULL : strcmp(argv[3], "-") == 0 ? stdin : fopen(argv[3], "re");
    if (!file || kiln_client_open(NULL, &q.client, &err)) {
        fprintf(stderr, "plans: cannot begin: %s\n", err.text);
        return 1;
    }
    q.target = argv[1];
    q.id = argv[2];
    int rc = KILN_E_OK;
    while (!rc && fgets(text, sizeof(text), file)) {
        text[strcspn(text, "\n")] = '\0';
        rc = take_line(&q, text, &err);
    }
    fclose(file);
    kiln_client_close(q.client);
    if (rc)
        printf("plans: %s: %s\n", text, err.text);
    else
        printf("%u problems have plans, with %u code objects for %s\n", q.problems, q.objects,
               q.target);
    return rc || q.problems == 0 ? 1 : 0;
}
