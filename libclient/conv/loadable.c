/* SPDX-License-Identifier: MIT */
#include "libclient/conv/loadable.h"

#include "libclient/device/device.h"
#include "libclient/failure.h"

#include <kiln/run.h>

static enum kiln_code load_plan(struct kiln_device *device, struct kiln_plan *plan,
                                struct kiln_err *err)
{
    struct kiln_error e;
    struct kiln_run *run = NULL;
    int rc = kiln_run_create(device, plan, &run, &e);
    kiln_run_destroy(run);
    return error_take(rc, &e, err);
}

/* Other failures, such as a lack of memory, say nothing about the kernels. */
static bool is_refusal(enum kiln_code code)
{
    return code == KILN_CORRUPT || code == KILN_UNSUPPORTED;
}

/* Gets the plan without kernels of packages, and loads it.  Requests no generic plan: its kernels
 * are of packages, and a kilnd of an older release, which ignores |no_packages|, would send them
 * again. */
static enum kiln_code replace_plan(const struct loadable_request *request,
                                   struct kiln_plan **ret_plan, struct kiln_err *err)
{
    struct kiln_error e;
    struct kiln_plan *plan = NULL;
    struct kiln_plan_options options = *request->options;
    options.no_packages = 1;
    options.generic = 0;
    enum kiln_code rc =
        error_take(kiln_plan_get(request->client, request->problem, &options, &plan, &e), &e, err);
    if (!rc)
        rc = load_plan(request->device, plan, err);
    if (rc) {
        kiln_plan_unref(plan);
        return rc;
    }
    atomic_store(&request->device->refuses_packages, true);
    *ret_plan = plan;
    return KILN_OK;
}

enum kiln_code loadable_plan_check(const struct loadable_request *request, struct kiln_plan **plan,
                                   struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    struct kiln_plan *fresh = NULL;
    enum kiln_code rc = load_plan(request->device, *plan, &why);
    if (!rc)
        return KILN_OK;
    if (!is_refusal(rc) || request->options->no_packages || request->options->toolchain)
        return kiln_fail(err, rc, "%s", why.text);
    rc = replace_plan(request, &fresh, err);
    if (rc)
        return kiln_while(err, "%s; without kernels of packages", why.text);
    if (request->note)
        kiln_fail(request->note, why.code, "no kernels of packages are used: %s", why.text);
    kiln_plan_unref(*plan);
    *plan = fresh;
    return KILN_OK;
}

enum kiln_code loadable_plan_get(const struct loadable_request *request,
                                 struct kiln_plan **ret_plan, struct kiln_err *err)
{
    struct kiln_error e;
    struct kiln_plan *plan = NULL;
    int status = kiln_plan_get(request->client, request->problem, request->options, &plan, &e);
    enum kiln_code rc = error_take(status, &e, err);
    if (!rc)
        rc = loadable_plan_check(request, &plan, err);
    if (rc)
        kiln_plan_unref(plan);
    else
        *ret_plan = plan;
    return rc;
}
