/* SPDX-License-Identifier: MIT */
/* The main() of every program whose tests need no preparation. */
#include "tests/support/test.h"

int main(int argc, char **argv) { return test_main(argc, argv); }
