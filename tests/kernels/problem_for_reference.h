/* SPDX-License-Identifier: MIT */
#pragma once

/* Converts a problem to the type of the public headers, for kiln-driver's reference. */
#include "common/protocol/problem.h"

#include <kiln/problem.h>

struct kiln_problem problem_for_reference(const struct problem *problem);
