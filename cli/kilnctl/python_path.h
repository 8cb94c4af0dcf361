/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The value of PYTHONPATH with which a Python program gets kiln.torch without a change.
 *
 * Threading  main thread
 */
#include <kiln/error.h>

#include <limits.h>

enum { PYTHON_PATH_MAX = 4 * PATH_MAX };

/* Writes the directory of the Python package's sitecustomize.py, followed by the current value of
 * PYTHONPATH.  If that value begins with the directory already, writes it unchanged.  Fails if
 * it does not find the file. */
int python_path_value(char ret_value[PYTHON_PATH_MAX], struct kiln_error *err);
