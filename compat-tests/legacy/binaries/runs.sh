#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs old programs under vip_run, with the library they were linked with at hand: one whose calls all
# fail. So what succeeds has reached libvipl; and that each fails without vip_run is tried first.
#
# usage: runs.sh VIP_RUN DIRECTORY CASE [NIC=DEVICE]
# DIRECTORY has the programs, and the dead libraries below dead/. Without NIC=DEVICE the program opens
# nic0, and that is the first RDMA device: by its name, since else it would be the loopback device where
# programs of this word size can use no other.
set -u

if [ $# -lt 3 ] || [ $# -gt 4 ]; then
	echo "usage: $0 VIP_RUN DIRECTORY CASE [NIC=DEVICE]" >&2
	exit 2
fi
vip_run=$1 here=$2 case=$3 map=${4:-nic0=$(ls /sys/class/infiniband | head -n 1)}
nic=${map%%=*}

# Without the sanitizers' complaint that they are not the first library, and about what they leak.
export ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0"

failed=0
fail() {
	echo "$0: $case: $*" >&2
	failed=1
}

# runs COMMAND...: has to fail by itself, and to succeed under vip_run.
runs() {
	if "$@" 2>/dev/null; then
		fail "succeeds without vip_run, so nothing is shown: $*"
	fi
	"$vip_run" "--nic=$map" ${preload:+--preload} "$@" || fail "fails: $*"
}

preload=
case $case in
gnivipl | vipl | other)
	# The dead library is where the dynamic linker looks.
	export LD_LIBRARY_PATH="$here/dead/$case"
	runs "$here/old_exchange_$case" "$nic"
	;;
absent)
	# There is no library but ours.
	runs "$here/old_exchange_gnivipl" "$nic"
	;;
rpath)
	# The program itself says where the dead library is, and that comes before LD_LIBRARY_PATH.
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
