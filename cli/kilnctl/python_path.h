/* SPDX-License-Identifier: MIT */
#pragma once

/* Computes the value of PYTHONPATH with which an unmodified Python program uses kiln.torch.
 *
 * Threading  main thread */
#include <kiln/error.h>

#include <limits.h>

enum { PYTHON_PATH_MAX = 4 * PATH_MAX };

/* Writes the directory of kiln's sitecustomize.py, followed by the present value of PYTHONPATH. If
 * that value starts with the directory, writes it unchanged. Fails if sitecustomize.py cannot be
 * found. */
int python_path_value(char ret_value[PYTHON_PATH_MAX], struct kiln_error *err);
