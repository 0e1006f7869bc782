/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "conform.h"

const struct conf_case stdio_cases[] = {
	{ NULL, NULL, 0 }
};
