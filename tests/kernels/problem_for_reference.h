/* SPDX-License-Identifier: MIT */
#pragma once

/* A problem as the public headers, and so the reference of the driver, have it. */
#include "common/problem.h"

#include <kiln/problem.h>

struct kiln_problem problem_for_reference(const struct problem *problem);
