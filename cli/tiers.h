/* SPDX-License-Identifier: MIT */
#pragma once

/* Names of who had a kernel. */

/* "hot", "disk", ... for KILN_TIER_*; "unknown" for others.  Static storage. */
const char *tier_name(int tier);
