/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * config.h - the settings: one table makes the struct, the parser, the
 * --help text, the manual's section and the test that they agree
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/conffile.h"

#define CONF_RULES 256

/*
 * X(field, kind, variable, default as text, values for people, meaning)
 * kinds: bool (on/off), attach, rnic, bytes, spin, path, level, fault
 */
#define SETTINGS(X) \
	X(enabled, onoff, "SIDESTEP", "on", "on, off", \
	  "off: the library passes everything to the kernel") \
	X(attach, attach, "SIDESTEP_ATTACH", "auto", "auto, eager, never, a number of bytes", \
	  "when a connection is worth a ring") \
	X(rnic, rnic, "SIDESTEP_RNIC", "auto", "auto, soft, verbs, none, a device name", \
	  "which RNICs may be used") \
	X(ring_bytes, bytes, "SIDESTEP_RING_BYTES", "2097152", "power of two, 4096 to 16777216", \
	  "most that a ring grows to") \
	X(spin_us, spin, "SIDESTEP_SPIN_US", "auto", "number, auto, 0", \
	  "longest polling before sleep") \
	X(stats_file, path, "SIDESTEP_STATS_FILE", "", "path, %p is the pid", \
	  "append the counters as a JSON line at exit") \
	X(log, level, "SIDESTEP_LOG", "off", "off, error, info, debug, trace", \
	  "what to log") \
	X(log_file, path, "SIDESTEP_LOG_FILE", "", "path", \
	  "where to log; none: standard error if it is a terminal") \
	X(config_file, path, "SIDESTEP_CONFIG", "", "path", \
	  "settings and rules by program, address and port") \
	X(key_file, path, "SIDESTEP_KEY_FILE", "", "path", \
	  "shared secret for meetings") \
	X(fault, fault, "SIDESTEP_FAULT", "", "list of name[:n]", \
	  "fault injection, for tests")

#define ATTACH_AUTO	(-1)
#define ATTACH_NEVER	(-2)
#define ATTACH_EAGER	0	/* else: bytes */
#define SPIN_AUTO	(-1)

enum rnic_choice { RNIC_AUTO, RNIC_SOFT, RNIC_VERBS, RNIC_NONE, RNIC_NAMED, RNIC_CHOICES };

struct rnic_setting {
	enum rnic_choice choice;
	char device[64];
};

/* Faults by name, 0 = not asked for; the unit is in the name. */
#define FAULTS(X) \
	X(retreat, "retreat") \
	X(kill_link, "kill-link") \
	X(delay_completions, "delay-completions") \
	X(no_write_imm, "no-write-imm") \
	X(fail_mr, "fail-mr") \
	X(fail_alloc, "fail-alloc") \
	X(fail_call, "fail-call") \
	X(shrink_rings, "shrink-rings") \
	X(mute_meeting, "mute-meeting") \
	X(babble, "babble") \
	X(hurry, "hurry") \
	X(far, "far") \
	X(no_netlink, "no-netlink")

struct fault_setting {
#define X(field, name) uint32_t field;
	FAULTS(X)
#undef X
};

typedef bool setting_onoff;
typedef int64_t setting_attach;
typedef struct rnic_setting setting_rnic;
typedef uint64_t setting_bytes;
typedef int64_t setting_spin;
typedef char setting_path[4096];
typedef int setting_level;
typedef struct fault_setting setting_fault;

struct config {
#define X(field, kind, var, def, values, meaning) setting_##kind field;
	SETTINGS(X)
#undef X
};

extern struct config config;

/*
 * Read the environment (envp: NAME=VALUE strings, NULL-terminated), then the
 * files: what SIDESTEP_CONFIG names, the user's, the system's.  Who sets a thing
 * first wins, and so does the first rule that fits; rules about other programs
 * are left out.  A value that cannot be read leaves the default and is counted;
 * a file with anything wrong in it is left out as a whole.  A program with more
 * rights than its caller (AT_SECURE) has only the system's file.
 * Return: number of settings refused.  Context: start-up, one thread, no malloc.
 */
int config_load(char *const *envp);

/* Log what was wrong with the files, now that there is a log. */
void config_log_problems(void);

extern unsigned config_nrules;

/*
 * Ports and address as in rule_covers(); RULE_NONE: no rule.
 * Context: any.
 */
enum rule_action config_rule(uint16_t server_port, uint16_t listen_port, int family,
			     const uint8_t *addr);

/* Parse one value into the setting; return 0 or -EINVAL.  For tests and tools. */
int config_set(struct config *c, const char *variable, const char *value);

#endif
