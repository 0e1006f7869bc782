# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# One file for the four commands; bash-completion and zsh look it up by name.
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = completion/_sidestep
EXTRA_DIST += completion/sidestep.bash tests/unit/test_completion
TESTS += tests/unit/test_completion

install-data-hook: install-bash-completion
install-bash-completion:
	$(MKDIR_P) '$(DESTDIR)$(bashcompletiondir)'
	$(INSTALL_DATA) $(srcdir)/completion/sidestep.bash '$(DESTDIR)$(bashcompletiondir)/sidestep'
	cd '$(DESTDIR)$(bashcompletiondir)' && for t in stat check bench; do \
		rm -f sidestep-$$t && $(LN_S) sidestep sidestep-$$t || exit 1; done

uninstall-hook: uninstall-bash-completion
uninstall-bash-completion:
	cd '$(DESTDIR)$(bashcompletiondir)' && \
		rm -f sidestep sidestep-stat sidestep-check sidestep-bench
.PHONY: install-bash-completion uninstall-bash-completion
