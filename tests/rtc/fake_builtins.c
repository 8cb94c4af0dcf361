/* SPDX-License-Identifier: MIT */
/* Stands for libnvrtc-builtins, of which libkiln-rtc reads only the build id. */
extern int fake_builtins;
int fake_builtins = 1;
