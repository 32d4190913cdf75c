#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# interface.sh - compares the interface of the shared library with that of the release, which is in a file.
#
# symbols.py has the names and versions of the functions, and layout.c the sizes and offsets of what the header
# defines, compiled without the library's options. abidiff reads the debug information of the library as it was
# built, and adds:
#   - types of members and not only their sizes: what is signed, and what a pointer points to;
#   - enumerators and members that are new;
#   - parameters and results of functions that nobody has written a line for in layout.c;
#   - options of the build that change a layout, such as -fshort-enums.
#
# Functions that are removed or changed break programs. What else is different, as an addition, asks for a look at it, and for
# the file to be made anew in the same commit: cmake --build --preset release --target abi_dump.
#
# Formats of different numbers cannot be compared. FILE.abi is for format 2, FILE.3.abi for format 3 (libabigail 3, in Debian
# testing), and so on: after an addition both are made, each on a system that has it.
#
# usage: interface.sh [--write] LIBRARY FILE; ABIDW and ABIDIFF name the programs
set -eu

write=''
if [ "$1" = --write ]; then
	write=yes
	shift
fi
library=$1
file=$2
format=$("${ABIDW:-abidw}" --abixml-version | sed 's/.* //; s/\..*//')
[ "$format" = 2 ] || file=${file%.abi}.$format.abi
if [ ! "$write" ] && [ ! -e "$file" ]; then
	echo "interface: $file is missing, the release's interface in the format of this libabigail: --target abi_dump" >&2
	exit 1
fi
new=$(mktemp)
trap 'rm -f "$new"' EXIT

# The exported functions and the types that they reach; nothing of where the library was built, and of lines in its sources.
# abidw --header-file would take the types of vipl.h for private ones where the compiler was given another path of it.
"${ABIDW:-abidw}" --exported-interfaces-only --no-show-locs --no-comp-dir-path --no-corpus-path --no-architecture \
	--no-elf-needed --no-parameter-names --type-id-style hash "$library" | sed "s/ path='[^']*'//" >"$new"
for part in 'function-decl .*VipOpenNic' 'enumerator .*VIP_SUCCESS' 'var-decl .*HostAddressLen'; do
	if ! grep -q "<$part" "$new"; then
		echo "interface: $library tells nothing of its types: is it built with -g?" >&2
		exit 1
	fi
done

if [ "$write" ]; then
	cat "$new" >"$file"
	exit
fi
# Any bit of the exit status is a change, or an error.
if ! "${ABIDIFF:-abidiff}" --no-added-syms "$file" "$new"; then
	echo "interface: this breaks programs that were built with the release" >&2
	exit 1
fi
if ! "${ABIDIFF:-abidiff}" --harmless "$file" "$new"; then
	echo "interface: abidiff sees no harm in this; if there is none, make the file anew: --target abi_dump" >&2
	exit 1
fi
echo "interface: that of $(basename "$file")"
