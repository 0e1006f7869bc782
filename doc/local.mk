# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
dist_doc_DATA = \
	ARCHITECTURE \
	HACKING \
	NEWS \
	README \
	doc/PROGRESS.md \
	doc/architecture.svg \
	doc/comparison.md \
	doc/conformance.md \
	doc/containers.md \
	doc/faults.md \
	doc/locking.md \
	doc/observed.md \
	doc/performance.md \
	doc/sandbox.md \
	doc/security.md \
	doc/systemd.md \
	doc/verbs.md \
	doc/wire.md
examplesdir = $(docdir)/examples
dist_examples_DATA = \
	contrib/sidestep.lua \
	doc/examples/known.c \
	doc/examples/systemd-dropin.conf

EXTRA_DIST += \
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
