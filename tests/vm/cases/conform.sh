# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 200
# Some conformance cases over soft-RoCE.
conformance -k '^stream' -k '^half' -k '^poll' -k '^close' -k '^flags'
