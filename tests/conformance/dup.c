/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "conform.h"

const struct conf_case dup_cases[] = {
	{ NULL, NULL, 0 }
};
