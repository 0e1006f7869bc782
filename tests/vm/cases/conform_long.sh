# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 1800
# long
# All conformance cases over soft-RoCE.
conformance
