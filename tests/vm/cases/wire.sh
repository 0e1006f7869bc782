# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# Two guests hear each other and have a device each.
rxe_up
barrier up
busybox ping -c 3 -W 5 "10.9.0.$((3 - G))" || fail "no answer"
barrier over
