#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Compiles vipl.h alone, and what programs of both dialects do with it, in every standard of C and C++ that
# programs may be built with, for each word size that the compilers support, with and without
# VIPL095. A warning is a failure.
#
# usage: compile_matrix.sh C-COMPILER C++-COMPILER INCLUDE-DIRECTORY SOURCE-DIRECTORY
set -u

if [ $# -ne 4 ]; then
	echo "usage: $0 CC CXX INCLUDE-DIRECTORY SOURCE-DIRECTORY" >&2
	exit 2
fi
cc=$1 cxx=$2 include=$3 sources=$4

c_standards='c89 gnu89 c99 gnu99 c11 gnu11 c17 gnu17 c2x gnu2x'
cxx_standards='c++98 gnu++98 c++11 c++14 c++17 gnu++17 c++20 c++2b'
# A compiler that does not know one of these fails the test.
required='gnu89 c99 c11 c17 c2x c++98 c++11 c++17 c++20'

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
: >"$work/empty.c"
echo '#include <stdlib.h>' >"$work/libc.c"
cat >"$work/alone.c" <<'END'
#include <vipl.h>
#include <vipl.h>
#ifdef __cplusplus
/* An error unless the header declared it so. */
extern "C" VIP_RETURN VipCloseNic(VIP_NIC_HANDLE);
#endif
extern int only_for_the_sake_of_pedantry;
END

compiled=0 failed=0

# try COMPILER LANGUAGE STANDARD WORD-SIZE DEFINITION
try() {
	for source in "$work/alone.c" "$sources/dialects.c"; do
		# It also optimises, since some warnings come only then.
		for level in -O0 -O2; do
			compiled=$((compiled + 1))
			# $5 is an option or empty.
			"$1" -x "$2" "-std=$3" "$4" "$level" ${5:+"$5"} -Wall -Wextra -Wundef \
				-Wshadow -pedantic -Werror "-I$include" -c "$source" \
				-o "$work/out.o" && continue
			failed=$((failed + 1))
			echo "FAILED: ${source##*/} as $3 $4 $level ${5:-}"
		done
	done
}

# language COMPILER LANGUAGE STANDARDS
language() {
	sizes=
	for bits in -m64 -m32; do
		if "$1" -x "$2" "$bits" -c "$work/libc.c" -o "$work/out.o" 2>/dev/null; then
			sizes="$sizes $bits"
		else
			echo "skipped: $2 $bits, which this compiler cannot do"
		fi
	done
	# A compiler for one word size may know neither option. -pipe changes nothing.
	for bits in ${sizes:--pipe}; do
		for standard in $3; do
			if ! "$1" -x "$2" "-std=$standard" -c "$work/empty.c" -o "$work/out.o" \
				2>/dev/null; then
				echo "not known to this compiler: $standard"
				case " $required " in
				*" $standard "*) failed=$((failed + 1)) ;;
				esac
				continue
			fi
			try "$1" "$2" "$standard" "$bits" ''
			try "$1" "$2" "$standard" "$bits" -DVIPL095
		done
	done
}

language "$cc" c "$c_standards"
language "$cxx" c++ "$cxx_standards"

echo "$compiled compilations, $failed failures"
[ "$compiled" -gt 0 ] && [ "$failed" -eq 0 ]
