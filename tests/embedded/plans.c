/* SPDX-License-Identifier: MIT */

/*
 * Asks for a plan for every problem of a file of MIOpenDriver command lines, of what is built into
 * this program: plans TARGET PROBLEMS.  Each must come with its code objects, which the engine has
 * checked to be ones for that target, and from a package.
 */
#include <kiln/plan.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct tally {
    unsigned problems, objects;
};

static int take(struct kiln_client *client, const char *target, const struct kiln_problem *problem,
                struct tally *tally, struct kiln_error *err)
{
    const struct kiln_plan_options options = { .size = sizeof(options), .target = target };
    struct kiln_plan *plan = NULL;
    int rc = kiln_plan_get(client, problem, &options, 0, &plan, err);
    if (rc)
        return rc;
    tally->problems++;
    tally->objects += kiln_plan_object_count(plan);
    bool is_packaged = strcmp(kiln_plan_toolchain(plan), "package") == 0;
    kiln_plan_unref(plan);
    if (is_packaged)
        return KILN_E_OK;
    snprintf(err->text, sizeof(err->text), "a plan is from no package");
    return KILN_E_INVALID;
}

static int take_line(struct kiln_client *client, const char *target, const char *text,
                     struct tally *tally, struct kiln_error *err)
{
    struct kiln_driver_line line = { .size = sizeof(line) };
    int rc = kiln_driver_line_parse(text, &line, err);
    if (rc == KILN_E_NOT_FOUND)
        return KILN_E_OK; /* a comment */
    for (unsigned i = 0; !rc && i < line.count; i++)
        rc = take(client, target, &line.problems[i], tally, err);
    return rc;
}

int main(int argc, char **argv)
{
    struct kiln_client *client = NULL;
    struct kiln_error err = { 0 };
    struct tally tally = { 0 };
    char text[1024];
    FILE *file = argc == 3 ? fopen(argv[2], "re") : NULL;
    if (!file || kiln_client_open(NULL, &client, &err)) {
        fprintf(stderr, "plans: cannot begin: %s\n", err.text);
        return 1;
    }
    int rc = KILN_E_OK;
    while (!rc && fgets(text, sizeof(text), file)) {
        text[strcspn(text, "\n")] = '\0';
        rc = take_line(client, argv[1], text, &tally, &err);
    }
    fclose(file);
    kiln_client_close(client);
    if (rc)
        printf("plans: %s: %s\n", text, err.text);
    else
        printf("%u problems have plans, with %u code objects for %s\n", tally.problems,
               tally.objects, argv[1]);
    return rc || tally.problems == 0 ? 1 : 0;
}
