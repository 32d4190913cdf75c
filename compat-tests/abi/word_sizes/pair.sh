#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pair.sh SERVER CALLER via_lo|rdma: runs one talk program against another, over the loopback device or the
# first RDMA device.
nic=$3
# The RDMA device is opened by its name, because nic0 could be the loopback device for one of the word
# sizes.
[ "$nic" != rdma ] || nic=$(ls /sys/class/infiniband | head -n 1)
name=words.$$
"$1" serve "$name" "$nic" &
server=$!
failed=0
"$2" call "$name" "$nic" || failed=1
[ "$failed" = 0 ] || kill "$server" 2>/dev/null
wait "$server" || failed=1
exit "$failed"
