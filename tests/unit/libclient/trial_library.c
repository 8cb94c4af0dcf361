/* SPDX-License-Identifier: MIT */
/* A fake vendor library. trial_number distinguishes its builds. */
#define PUBLIC __attribute__((visibility("default")))

PUBLIC int trial_number(void);
int trial_number(void) { return TRIAL_NUMBER; }

#ifdef TRIAL_HAS_MORE
PUBLIC int trial_more(void);
int trial_more(void) { return 1; }
#endif
