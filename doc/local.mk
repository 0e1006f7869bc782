# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
EXTRA_DIST += \
	doc/faults.md \
	doc/locking.md \
	doc/PROGRESS.md \
	doc/observed.md \
	doc/wire.md \
	doc/model/PROTOCOL.md \
	doc/model/README.md \
	doc/model/check.sh \
	doc/model/close.pml \
	doc/model/one.sh \
	doc/model/results.txt \
	doc/model/rsttest.py \
	doc/model/run.sh \
	doc/model/stream.pml \
	doc/model/trace.sh \
	doc/model/wake.pml

.PHONY: check-model
check-model:
	sh $(srcdir)/doc/model/check.sh $(srcdir)/doc/model
