/* SPDX-License-Identifier: MIT */
/* The main() of all test programs that need no preparation of their own. */
#include "tests/support/test.h"

int main(int argc, char **argv) { return test_main(argc, argv); }
