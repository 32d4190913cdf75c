#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pair.sh SERVER CALLER via_lo|rdma: runs one vip_faults with another, over the loopback device or the first RDMA
# device, with each operation.
nic=$3
# The RDMA device is opened by its name, because nic0 could be the loopback device for one of the word
# sizes.
[ "$nic" != rdma ] || nic=$(ls /sys/class/infiniband | head -n 1)
for operation in send write read; do
	exchange="--nic $nic --name words.$$ --operation $operation --messages 60 --largest 1048576"
	exchange="$exchange --timeout 120000 --seconds 120 --limit 250"
	# The options are meant to be split into arguments.
	# shellcheck disable=SC2086
	"$1" serve $exchange &
	server=$!
	failed=0
	# shellcheck disable=SC2086
	"$2" call $exchange || failed=1
	[ "$failed" = 0 ] || kill "$server" 2>/dev/null
	wait "$server" || failed=1
	[ "$failed" = 0 ] || exit 1
done
