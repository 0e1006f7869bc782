/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * log.h - off unless asked for (SIDESTEP_LOG, SIDESTEP_LOG_FILE)
 *
 * Lower case, no full stop, "qp 0x%x", "fd %d".  Who first decides that
 * something is an error logs it; others pass it up.  Nothing on the data path.
 * Context: any; async-signal-safe as far as vsnprintf of plain conversions is.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_OFF, LOG_ERROR, LOG_INFO, LOG_DEBUG, LOG_TRACE };

extern int log_level;

/* file NULL: standard error, and only while that is a terminal */
void log_open(enum log_level level, const char *file);
int log_fd(void);	/* -1: none; a private fd otherwise */

__attribute__((format(printf, 2, 3)))
void log_write(enum log_level level, const char *fmt, ...);

#define log_at(lv, ...) do { \
	if (__builtin_expect(log_level >= (lv), 0)) \
		log_write((lv), __VA_ARGS__); \
} while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_trace(...) log_at(LOG_TRACE, __VA_ARGS__)

#endif
