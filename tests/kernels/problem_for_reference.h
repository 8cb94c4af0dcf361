/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/protocol/problem.h"

#include <kiln/problem.h>

struct kiln_problem problem_for_reference(const struct problem *problem);
