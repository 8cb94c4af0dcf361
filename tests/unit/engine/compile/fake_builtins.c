/* SPDX-License-Identifier: MIT */
/* The builtins library of fake_nvrtc.c. */
const int fake_builtins = 1;
