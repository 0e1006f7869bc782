#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The tests of a link where no memory is shared (fault far).
exec tests/contract/link far
