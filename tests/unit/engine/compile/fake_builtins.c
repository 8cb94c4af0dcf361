/* SPDX-License-Identifier: MIT */
const int fake_builtins = 1;
