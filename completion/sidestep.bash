# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# bash completion for sidestep and its tools.  Options and settings are asked of
# the tools themselves (--help), so that they are those of the installed version;
# tests/unit/test_completion sees to the rest.

# the options that a tool's --help names
_sidestep_options() {
	"$@" --help 2>/dev/null | sed -nE 's/^ +-/-/; T; s/  .*//; p' |
		grep -oE '(^| )--?[A-Za-z][a-z-]*' | tr -d ' '
}

# "NAME VALUES" of each setting
_sidestep_settings() {
	"$1" --help 2>/dev/null |
		sed -nE 's/^  ([a-z_]+) +SIDESTEP[A-Z_]* +([^;]*);.*/\1 \2/p'
}

# what may follow NAME=
_sidestep_values() {
	_sidestep_settings "$1" | sed -n "s/^$2 //p" | tr ',' '\n' | sed 's/ //g' |
		grep -xE 'on|off|auto|eager|never|soft|verbs|none|error|info|debug|trace|0'
}

_sidestep_profiles() {
	"$1" --help 2>/dev/null | sed -nE 's/.*several at once: (.*)/\1/p' | tr -d ','
}

_sidestep_reply() {
	# shellcheck disable=SC2207
	COMPREPLY=($(compgen -W "$1" -- "$2"))
}

# -o NAME=VALUE; bash makes three words of it
_sidestep_setting() {
	local tool=$1 cur=$2 name=${3-}
	if [ -n "$name" ]; then
		case $name in
		*_file) compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		*) _sidestep_reply "$(_sidestep_values "$tool" "$name")" "$cur" ;;
		esac
		return
	fi
	_sidestep_reply "$(_sidestep_settings "$tool" | sed 's/ .*/=/')" "$cur"
	compopt -o nospace 2>/dev/null
}

# the index of the program's word, or of the present one
_sidestep_program_at() {
	local i=1
	while [ $i -lt "$COMP_CWORD" ]; do
		case ${COMP_WORDS[i]} in
		-o | --option)
			i=$((i + 1))
			[ "${COMP_WORDS[i + 1]-}" != = ] || i=$((i + 2)) ;;
		-p | --profile) i=$((i + 1)) ;;
		--) i=$((i + 1)); break ;;
		-*) ;;
		*) break ;;
		esac
		i=$((i + 1))
	done
	echo "$i"
}

_sidestep() {
	local tool=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]} n=$COMP_CWORD at
	local prev=${COMP_WORDS[n - 1]}
	COMPREPLY=()
	if [ "$cur" = = ] && [ "$n" -ge 3 ]; then
		_sidestep_setting "$tool" '' "$prev"
		return
	elif [ "$prev" = = ] && [ "$n" -ge 4 ]; then
		_sidestep_setting "$tool" "$cur" "${COMP_WORDS[n - 2]}"
		return
	fi
	case $prev in
	-o | --option) _sidestep_setting "$tool" "$cur"; return ;;
	-p | --profile) _sidestep_reply "$(_sidestep_profiles "$tool")" "$cur"; return ;;
	--check-config) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
	esac
	at=$(_sidestep_program_at)
	if [ "$at" -lt "$n" ] && declare -F _command_offset >/dev/null; then
		_command_offset "$at"	# of bash-completion: the program's own
	elif [ "$at" -lt "$n" ]; then
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	elif [ "${cur:0:1}" = - ]; then
		_sidestep_reply "$(_sidestep_options "$tool")" "$cur"
	else
		mapfile -t COMPREPLY < <(compgen -c -- "$cur")
	fi
}

_sidestep_stat() {
	local tool=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]}
	COMPREPLY=()
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--path) _sidestep_reply "tcp soft verbs" "$cur" ;;
	-p | --pid) _sidestep_reply "$("$tool" --json --summary 2>/dev/null |
		grep -oE '"pid": ?[0-9]+' | grep -oE '[0-9]+')" "$cur" ;;
	-P | --port | -w | --watch | -n | --count) ;;
	*) _sidestep_reply "$(_sidestep_options "$tool")" "$cur" ;;
	esac
}

_sidestep_check() {
	local tool=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]}
	COMPREPLY=()
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--peer) mapfile -t COMPREPLY < <(compgen -A hostname -S : -- "$cur")
		compopt -o nospace 2>/dev/null ;;
	*) _sidestep_reply "$(_sidestep_options "$tool")" "$cur" ;;
	esac
}

# the workloads that `ab --help` names
_sidestep_workloads() {
	"$1" ab --help 2>/dev/null | sed -nE '/^Workloads:/,$s/^  ([a-z0-9-]+).*/\1/p'
}

_sidestep_bench() {
	local tool=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]-}
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		_sidestep_reply "$("$tool" --help 2>/dev/null |
			sed -nE 's/.*sidestep-bench ([a-z]+) .*/\1/p') --help" "$cur"
		return
	fi
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--side) _sidestep_reply "both server client" "$cur"; return ;;
	--launcher) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
	--device) _sidestep_reply "soft" "$cur"; return ;;
	-n | --runs | -s | --seconds | -m | --messages | --max) return ;;
	esac
	case $command in
	ab) _sidestep_reply "$(_sidestep_options "$tool" ab) $(_sidestep_workloads "$tool")" "$cur" ;;
	rnic) _sidestep_reply "--json --quick --device --help" "$cur" ;;
	syscalls) _sidestep_reply "$(_sidestep_options "$tool" syscalls) pingpong" "$cur" ;;
	esac
}

complete -F _sidestep sidestep
complete -F _sidestep_stat sidestep-stat
complete -F _sidestep_check sidestep-check
complete -F _sidestep_bench sidestep-bench
