#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Installs into a directory of its own, and builds and runs a small program with the installed files, in
# each way that docs/PORTING.md names. Then makes the static library with each linker that there is, and configures the
# sources as part of another project.
#
# CMake keeps the list of the files of the last installation, by which a user removes them. It stays as it was.
#
# usage: run.sh CMAKE BUILD-DIRECTORY LIBDIR CC CXX "FLAGS" SOURCES OLD-PROGRAM [OTHER-BUILD]
# LIBDIR is below the prefix. OLD-PROGRAM was linked with another VIPL library. OTHER-BUILD, if given, is
# installed there first.
set -u

cmake=$1 build=$2 libdir=$3 cc=$4 cxx=$5 sources=$7 old=$8
read -ra flags <<<"$6"
trees=(${9:+"$9"} "$build")
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
prefix=$work/installed
unset LD_LIBRARY_PATH LD_PRELOAD DESTDIR
export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
mapfile -t api < <(sed -n 's/^ *\(Vip[A-Za-z]*\);.*/\1/p' "$sources/libvipl/vipl.map" | sort)
failed=0

fail() {
    echo "$0: $*" >&2
    failed=1
}

put_lists_back() {
    local i
    for i in "${!trees[@]}"; do
        rm -f "${trees[i]}/install_manifest.txt"
        [[ ! -e $work/list$i ]] || mv "$work/list$i" "${trees[i]}/install_manifest.txt"
    done
}

# compile OUTPUT COMPILER ARGUMENT...
compile() {
    local output=$1 compiler=$2
    shift 2
    "$compiler" ${flags[0]+"${flags[@]}"} -Wall -Wextra -Werror "$@" -o "$work/$output" ||
        fail "$output cannot be built"
}

# works OUTPUT shared|static
works() {
    local needs=static
    [[ $("$work/$1") == 'via_lo works' ]] || fail "$1 does not work"
    ! readelf -d "$work/$1" | grep -q 'NEEDED.*libvipl' || needs=shared
    [[ $needs == "$2" ]] || fail "$1 is linked with the $needs library"
}

for i in "${!trees[@]}"; do
    [[ ! -e ${trees[i]}/install_manifest.txt ]] || mv "${trees[i]}/install_manifest.txt" "$work/list$i"
done
trap 'put_lists_back; rm -rf "$work"' EXIT
for tree in "${trees[@]}"; do
    "$cmake" --install "$tree" --prefix "$prefix" >/dev/null || {
        fail "cannot install $tree"
        exit 1
    }
done

# has_api FILE: a program can see the API in the static library, and nothing else but the compiler's own.
has_api() {
    diff <(printf '%s\n' "${api[@]}") \
        <(nm -g --defined-only "$1" | awk 'NF == 3 && $3 !~ /^__x86[.]get_pc_thunk[.]/ { print $3 }' | sort) ||
        fail "$1 does not have the API's names, or has others"
}
has_api "$prefix/$libdir/libvipl.a"

# pkg-config's output has to be split into words.
# shellcheck disable=SC2046
{
    compile by_pkg_config "$cc" "$here/program.c" $(pkg-config --cflags --libs vipl) "-Wl,-rpath,$prefix/$libdir"
    compile by_pkg_config_in_cxx "$cxx" -x c++ "$here/program.c" $(pkg-config --cflags --libs vipl) \
        "-Wl,-rpath,$prefix/$libdir"
    compile by_static_library "$cc" $(pkg-config --cflags vipl) "$here/program.c" \
        "$(pkg-config --variable=libdir vipl)/libvipl.a" \
        $(pkg-config --static --libs vipl | tr ' ' '\n' | grep -vx -- -lvipl)
    compile all_static "$cc" -static "$here/program.c" $(pkg-config --static --cflags --libs vipl)
}
[[ " $(pkg-config --cflags --libs vipl) " == *" -I$prefix/include "*" -L$prefix/$libdir "* ]] ||
    fail "pkg-config does not name the directories as they are: $(pkg-config --cflags --libs vipl)"
# As README.md says. This makes the directories behave like those that compilers and the dynamic linker search by themselves. (A
# compiler for another processor does not read LIBRARY_PATH.)
CPATH=$prefix/include compile plainly "$cc" "$here/program.c" "-L$prefix/$libdir" -lvipl
LD_LIBRARY_PATH=$prefix/$libdir works plainly shared
"$prefix/bin/vip_info" --version >/dev/null || fail "vip_info does not find the library that is installed with it"
works by_pkg_config shared
works by_pkg_config_in_cxx shared
works by_static_library static
works all_static static
! readelf -l "$work/all_static" | grep -q INTERP || fail "all_static needs the dynamic linker"

if "$cmake" -S "$here/project" -B "$work/project" -DCMAKE_PREFIX_PATH="$prefix" -Dvipl_DIR="$prefix/$libdir/cmake/vipl" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="${flags[*]}" >"$work/log" 2>&1 &&
    "$cmake" --build "$work/project" >>"$work/log" 2>&1; then
    mv "$work/project/with_shared" "$work/project/with_static" "$work"
    works with_shared shared
    works with_static static
else
    cat "$work/log" >&2
    fail "a project of CMake's cannot be built"
fi

# The command that has made the static library, with each linker, and a program by that linker.
if [[ -e $build/build.ninja ]]; then
    made=$(ninja -C "$build" -t commands libvipl/libvipl.a | tail -n 1)
    for linker in bfd gold lld mold; do
        "$cc" "-fuse-ld=$linker" -Wl,--version >/dev/null 2>&1 || continue
        sh -c "$(sed "s| -nostdlib | -nostdlib -fuse-ld=$linker |; s| \(vipl\.o\)| $work/\1|g; s| \(libvipl\.a\)| $work/\1|g" <<<"$made")" ||
            fail "$linker cannot make the static library"
        has_api "$work/libvipl.a"
        # shellcheck disable=SC2046
        compile "by_$linker" "$cc" "-fuse-ld=$linker" $(pkg-config --cflags vipl) "$here/program.c" "$work/libvipl.a" \
            $(pkg-config --static --libs vipl | tr ' ' '\n' | grep -vx -- -lvipl)
        works "by_$linker" static
        rm -f "$work/libvipl.a"
    done
fi

# With a level of fortification of the packager's own, of which the first file that is compiled would warn.
if ! "$cmake" -S "$here/subproject" -B "$work/subproject" -DLIBVIPL="$sources" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON \
    -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="${flags[*]} -D_FORTIFY_SOURCE=3" >"$work/log" 2>&1 ||
    ! "$cmake" --build "$work/subproject" --target vipl_own_calls >>"$work/log" 2>&1; then
    cat "$work/log" >&2
    fail "it cannot be part of another project"
fi

"$here/examples.sh" "$sources/apps/examples" "$work/examples" CC="$cc ${flags[*]}" LDFLAGS="-Wl,-rpath,$prefix/$libdir" ||
    fail "the examples do not work"

# vip_run finds the installed library, and no other.
"$prefix/bin/vip_run" --check --nic=nic0=via_lo "$old" |
    grep -q "^LD_LIBRARY_PATH=$prefix/$libdir/libvipl" || fail "vip_run does not find the library"
"$prefix/bin/vip_run" --nic=nic0=via_lo "$old" nic0 || fail "vip_run does not run an old program"
for program in "$prefix"/bin/vip_*; do
    [[ -e $prefix/share/man/man1/${program##*/}.1 ]] || fail "no manual page of ${program##*/}"
done
for function in "${api[@]}"; do
    grep -q "^\.SH NAME" "$prefix/share/man/man3/$function.3" || fail "no manual page of $function"
done
grep -q "^\.SH NAME" "$prefix/share/man/man7/vipl.7" || fail "no manual page vipl(7)"
exit "$failed"
