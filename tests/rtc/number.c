/* SPDX-License-Identifier: MIT */
/* A library that the fake compiler loads. */
extern const int kiln_number;
const int kiln_number = NUMBER;
