/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Plans whose kernels the device's driver loads.  The compiler of a package may be newer than the
 * driver, which then refuses the kernels.  In this case, kilnd compiles them.
 *
 * Ownership  requests borrow all their members
 * Threading  any thread; the device notes that its driver refuses packages
 */
#include "common/base/err.h"

#include <kiln/device.h>
#include <kiln/plan.h>

struct loadable_request {
    struct kiln_client *client;
    struct kiln_device *device;
    const struct kiln_problem *problem;
    const struct kiln_plan_options *options;
    struct kiln_err *note; /* the reason, if the call gives up packages; NULL: not needed */
};

/* Like kiln_plan_get, but loads the plan's kernels, which stay loaded for the job.  If the driver
 * refuses them, requests the plan without kernels of packages.  If it loads this plan, requests for
 * the device use no packages from then on.  Fails if the kernels cannot be loaded for another
 * reason, such as a lack of memory. */
KILN_MUST_CHECK enum kiln_code loadable_plan_get(const struct loadable_request *request,
                                                 struct kiln_plan **ret_plan, struct kiln_err *err);
/* The same for a plan that was requested already.  Replaces |plan| if need be; does not change it
 * on failure. */
enum kiln_code loadable_plan_check(const struct loadable_request *request, struct kiln_plan **plan,
                                   struct kiln_err *err);
