# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = sidestep.pc

EXTRA_DIST += \
	debian/changelog \
	debian/control \
	debian/copyright \
	debian/libsidestep-dev.install \
	debian/libsidestep.install \
	debian/libsidestep.lintian-overrides \
	debian/libsidestep.triggers \
	debian/not-installed \
	debian/rules \
	debian/sidestep-doc.install \
	debian/sidestep.install \
	debian/source/format \
	debian/tests/control \
	debian/tests/header \
	debian/tests/redis \
	packaging/README \
	packaging/check_install \
	packaging/check_package

# rpmbuild -ta looks for it in the tarball
EXTRA_DIST += packaging/sidestep.spec

# DESTDIR, install-strip and uninstall: nothing elsewhere, nothing left
.PHONY: check-install
check-install: all
	MAKE="$(MAKE)" $(srcdir)/packaging/check_install

# Packages in a root of their own; PACKAGE_FLAGS=--once for the short run
.PHONY: check-package
check-package: distdir
	$(srcdir)/packaging/check_package $(PACKAGE_FLAGS) $(distdir)

# the folders that are ours alone; they stay where somebody has put something in
uninstall-hook: uninstall-folders
.PHONY: uninstall-folders
uninstall-folders:
	for d in '$(profiledir)' '$(pkgdatadir)' '$(examplesdir)' '$(docdir)' '$(sidestepincludedir)'; do \
		test ! -d "$(DESTDIR)$$d" || rmdir "$(DESTDIR)$$d" 2>/dev/null || :; \
	done
