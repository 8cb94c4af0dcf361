/* SPDX-License-Identifier: MIT */
#ifndef KILN_H
#define KILN_H

/* All of libkiln's API. */
#include <kiln/admin.h>
#include <kiln/client.h>
#include <kiln/conv.h>
#include <kiln/device.h>
#include <kiln/error.h>
#include <kiln/kernel.h>
#include <kiln/plan.h>
#include <kiln/problem.h>
#include <kiln/run.h>
#include <kiln/solutions.h>
#include <kiln/tuning.h>

#endif
