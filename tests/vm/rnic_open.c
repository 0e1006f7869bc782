/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rnic_open [BYTES]: can a verbs device be opened here, and BYTES be registered?
 *
 * Prints one line, "ok NAME" or the error, and whether libibverbs was loaded.
 * Nothing else may appear: the library is a guest in its process.
 */
#define _GNU_SOURCE
#include <config.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/rnic.h"

static bool loaded(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, "libibverbs") != NULL;
	if (f)
		fclose(f);
	return found;
}

static int try(size_t bytes, const char **what)
{
#ifdef HAVE_VERBS
	const struct rnic_ops *dev = &rnic_verbs_ops;
	struct rnic_slab slab;
	struct rnic *r;
	int err = dev->open(&r, NULL);

	*what = "open";
	if (err || !bytes)
		return err;
	*what = "register";
	struct ibv_pd *pd = dev->pd_new(r);
	err = pd ? dev->slab_new(pd, bytes, &slab) : -ENOMEM;
	if (!err)
		dev->slab_free(&slab);
	dev->pd_free(pd);
	dev->close(r);
	return err;
#else
	return -ENOTSUP;
#endif
}

int main(int argc, char **argv)
{
	const char *what = "";
	bool before = loaded();
	int err = try(argc > 1 ? strtoull(argv[1], NULL, 0) : 0, &what);

	if (before)
		puts("libibverbs was there before");
	printf("%s: %s, %s\n", what, err ? strerrorname_np(-err) : "ok",
	       loaded() ? "loaded" : "not loaded");
	return 0;
}
