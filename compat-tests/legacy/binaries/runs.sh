#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs old programs under vip_run. The library with which they were linked is present, and all of its
# calls fail. So a program that succeeds has reached libvipl. The script first checks that each program
# fails without vip_run.
#
# usage: runs.sh VIP_RUN DIRECTORY CASE [NIC=DEVICE]
# DIRECTORY has the programs, and below dead/ the libraries whose calls fail. Without NIC=DEVICE the
# program opens nic0, which vip_run maps to the first RDMA device. It gives the device's name, because
# nic0 would be the loopback device where programs of this word size can use no other.
set -u

if [ $# -lt 3 ] || [ $# -gt 4 ]; then
	echo "usage: $0 VIP_RUN DIRECTORY CASE [NIC=DEVICE]" >&2
	exit 2
fi
vip_run=$1 here=$2 case=$3 map=${4:-nic0=$(ls /sys/class/infiniband | head -n 1)}
nic=${map%%=*}

# Turn off the sanitizers' message that they are not the first library, and their leak check.
export ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0"

failed=0
fail() {
	echo "$0: $case: $*" >&2
	failed=1
}

# runs COMMAND...: the command must fail by itself, and succeed under vip_run. The dynamic linker must have nothing to
# say, but libibverbs may, of an RDMA device.
runs() {
	if "$@" 2>/dev/null; then
		fail "succeeds without vip_run, so nothing is shown: $*"
	fi
	said=$("$vip_run" "--nic=$map" ${preload:+--preload} "$@" 2>&1) || fail "fails: $*: $said"
	[ -z "$said" ] || [ "${map#*=}" != via_lo ] || fail "says: $said"
}

preload=
case $case in
gnivipl | vipl | other)
	# All functions of a program have to be found, also those that it does not call. In a guest this takes time.
	export LD_BIND_NOW=1
	# The dynamic linker finds the failing library here.
	export LD_LIBRARY_PATH="$here/dead/$case"
	runs "$here/old_exchange_$case" "$nic"
	;;
absent)
	# There is no other library than libvipl.
	runs "$here/old_exchange_gnivipl" "$nic"
	;;
rpath)
	# The program contains the path of the failing library, which has priority over LD_LIBRARY_PATH.
	runs "$here/old_exchange_rpath" "$nic"
	;;
loads)
	export LD_LIBRARY_PATH="$here/dead/gnivipl:$here/dead/vipl"
	for name in vipl.so libvipl.so libvipl.so.1 libgnivipl.so; do
		runs "$here/old_loads" "$name" "$nic"
	done
	;;
script)
	export LD_LIBRARY_PATH="$here/dead/gnivipl"
	script=$(mktemp) || exit 2
	trap 'rm -f "$script"' EXIT
	trap 'exit 2' HUP INT TERM
	printf '#!/bin/sh\n%s %s\n' "$here/old_exchange_gnivipl" '"$@"' >"$script"
	chmod +x "$script"
	runs "$script" "$nic"
	;;
script_preload)
	export LD_LIBRARY_PATH="$here/dead/other"
	preload=yes
	runs sh "-c" "$here/old_exchange_other $nic"
	;;
*)
	fail "is no case"
	;;
esac
exit "$failed"
