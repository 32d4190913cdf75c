#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs a program that was linked with a library without symbol versions, with libvipl in its place.
# libvipl is installed under the name that the program asks for ("path"), or put in front of another
# library with LD_PRELOAD ("preload"). The dynamic linker has to bind all symbols and must not print
# anything.
#
# usage: old_binary.sh path|preload PROGRAM OLD-LIBRARY-DIRECTORY LIBVIPL MAP
set -u

if [ $# -ne 5 ]; then
	echo "usage: $0 path|preload PROGRAM OLD-LIBRARY-DIRECTORY LIBVIPL MAP" >&2
	exit 2
fi
mode=$1 program=$2 old=$3 library=$4 map=$5

names=$(sed -n 's/^[[:space:]]*\(Vip[A-Za-z]*\);.*/\1/p' "$map")
if [ -z "$names" ]; then
	echo "no names in $map" >&2
	exit 1
fi

messages=$(mktemp) || exit 2
trap 'rm -f "$messages"' EXIT
trap 'exit 2' HUP INT TERM

# Turn off the sanitizers' message that they are not the first library.
export ASAN_OPTIONS="verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export LD_BIND_NOW=1

# The names are meant to be split into arguments.
# shellcheck disable=SC2086
case $mode in
path)
	LD_LIBRARY_PATH=${library%/*} "$program" $names 2>"$messages"
	;;
preload)
	# Without libvipl it has to fail: otherwise the test would show nothing.
	if LD_LIBRARY_PATH=$old "$program" $names 2>/dev/null; then
		echo "the program succeeds without libvipl" >&2
		exit 1
	fi
	LD_LIBRARY_PATH=$old LD_PRELOAD=$library "$program" $names 2>"$messages"
	;;
*)
	echo "$0: $mode is neither path nor preload" >&2
	exit 2
	;;
esac
status=$?

cat "$messages" >&2
if [ -s "$messages" ]; then
	echo "something was written to standard error" >&2
	exit 1
fi
exit $status
