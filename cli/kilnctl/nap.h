/* SPDX-License-Identifier: MIT */
#pragma once

/* Waiting before something is asked again; a file of its own so that tests need not wait. */
void nap_ms(unsigned ms);
