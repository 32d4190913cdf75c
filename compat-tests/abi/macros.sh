#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Checks that each constant of which layout.c has the value is a macro of vipl.h, constants of enumerations too, because
# programs test them with #ifdef.
#
# usage: macros.sh COMPILER INCLUDE-DIRECTORY LAYOUT
set -eu
macros=$(echo '#include <vipl.h>' | "$1" "-I$2" -dM -E - | awk '{ print $2 }')
constants=$(sed -n 's/^VALUE(\(\w*\),.*/\1/p' "$3")
[ -n "$constants" ]
if echo "$constants" | grep -vxF "$macros"; then
	echo "macros: these are none" >&2
	exit 1
fi
