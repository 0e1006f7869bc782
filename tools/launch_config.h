/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* launch_config.h - profiles and configuration files, as the launcher sees them */
#ifndef TOOLS_LAUNCH_CONFIG_H
#define TOOLS_LAUNCH_CONFIG_H

/* Set what the profile sets, unless the environment has it. Return: 0 or an exit code. */
int profile_use(const char *name);

/* As setenv() without overwriting; --show-config names option, as "-o", as the origin. */
int config_set_by(const char *variable, const char *value, const char *option);

/* --check-config [FILE]...: the given ones, or those that would be read. */
int config_check(int n, char **files);

/* --show-config: what holds, and who said so. */
int config_show(void);

#endif
