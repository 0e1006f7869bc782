/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * shmem.h - sealed shared memory: ours to make, a peer's to check
 *
 * Sealed against shrinking and growing before anybody else sees it, so a
 * mapping can never be cut short; never on hugetlbfs, where a hole that the
 * peer punches could not be filled again.  Mappings are not inherited by fork.
 */
#ifndef RNIC_SHMEM_H
#define RNIC_SHMEM_H

#include <stddef.h>
#include <stdint.h>

#define SHMEM_PAGE	4096u

/* Make, seal and map bytes (a multiple of the page size).
 * Return: the memfd, a private fd, with the mapping in *addr; or -errno. */
int shmem_new(const char *name, size_t bytes, void **addr);

/* Map a peer's memfd of exactly bytes, if it is what shmem_new() makes.
 * Return: 0, -EPROTO (not such a memfd) or -errno.  fd stays open. */
int shmem_map_peer(int fd, uint64_t bytes, void **addr);

void shmem_unmap(void *addr, size_t bytes);

/* Private zeroed memory for objects: whole pages, NULL when there is none. */
void *pages_new(size_t bytes);
void pages_free(void *p, size_t bytes);

#endif
