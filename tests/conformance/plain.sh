#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# make check: every conformance case on plain TCP, against its own expectations
exec "${srcdir:-.}/tests/conformance/run" --plain
