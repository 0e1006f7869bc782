/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * conffile.h - sidestep.conf: settings and rules
 *
 *	# a comment
 *	spin_us = 20
 *	program nginx port 8080: tcp
 *	to 10.0.0.0/8: ring
 *	all: tcp
 *
 * No malloc and no stdio: the library reads it as well as the launcher.
 */
#ifndef BASE_CONFFILE_H
#define BASE_CONFFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONF_BYTES	65536		/* a file has no more */
#define CONF_SYSTEM	"/etc/sidestep.conf"
#define CONF_USER	"sidestep.conf"	/* in $XDG_CONFIG_HOME or ~/.config */

/* X(symbol, word, meaning) */
#define RULE_ACTIONS(X) \
	X(RING, "ring", "a ring of any RNIC, if there is one") \
	X(SOFT, "soft", "a ring of the software RNIC only") \
	X(VERBS, "verbs", "a ring of an RDMA device only") \
	X(TCP, "tcp", "the kernel's TCP")

/* X(word, argument, meaning) */
#define RULE_CONDITIONS(X) \
	X("program", "NAME", "the program's file name; a last * stands for any end") \
	X("port", "PORT", "the server's port, at whichever end it is") \
	X("listen", "PORT", "connections accepted on this port") \
	X("to", "ADDRESS[/BITS]", "the address of the other end") \
	X("all", "", "every connection")

enum rule_action {
#define X(sym, word, meaning) RULE_##sym,
	RULE_ACTIONS(X)
#undef X
	RULE_NONE			/* no rule has matched */
};

struct rule {
	char program[64];		/* "": any */
	uint16_t port, listen;		/* 0: any */
	uint8_t family, bits;		/* 0: any address */
	uint8_t addr[16];
	uint8_t action;			/* enum rule_action */
};

struct conf_error {
	unsigned line, col;		/* from 1; 0: of the file as a whole */
	char text[200];
};

struct conf_sink {
	/* variable is one that config_set() takes; value has been accepted by it */
	void (*setting)(void *arg, const char *variable, const char *value, unsigned line);
	/* Return: 0, or -ENOSPC */
	int (*rule)(void *arg, const struct rule *r, unsigned line);
};

/*
 * Read text[0..n), in order; stop at the first thing that is wrong.
 * Return: 0, or -EINVAL with *err filled in.  sink NULL: only look.
 */
int conf_parse(const char *text, size_t n, const struct conf_sink *sink, void *arg,
	       struct conf_error *err);

/*
 * A file into buf[CONF_BYTES].  owned: it must belong to us or to root, and
 * nobody else may write it.
 * Return: its length; -ENOENT; -errno with err->text filled in.
 */
ssize_t conf_read(const char *path, bool owned, char *buf, struct conf_error *err);

/* The user's file into path; false: there is no home. */
bool conf_user_path(char *path, size_t size, const char *xdg, const char *home);

bool rule_program_is(const struct rule *r, const char *program);

/* addr: 4 or 16 bytes in network order. */
bool rule_covers(const struct rule *r, uint16_t server_port, uint16_t listen_port, int family,
		 const uint8_t *addr);

const char *rule_action_word(enum rule_action a);

#endif
