/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rnic_bench.c - the RNIC's figures alone, without the rest of sidestep-bench */
#include "bench_rnic.h"

int main(int argc, char **argv)
{
	return bench_rnic_main(argc, argv);
}
